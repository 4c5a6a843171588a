//! The protos as documentation: everything has a comment, and JSON keeps the names of the contract.

use std::collections::BTreeSet;

use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};

use crate::assert_none;

/// What stands in our proto files, with its place in the descriptor.
struct Element {
    name: String,
    kind: Kind,
    path: Vec<i32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Service,
    Method,
    Message,
    Field,
    TypedField,
    Enum,
    EnumValue,
}

// Field numbers of descriptor.proto; a path names an element by them.
const FILE_MESSAGE: i32 = 4;
const FILE_ENUM: i32 = 5;
const FILE_SERVICE: i32 = 6;
const MESSAGE_FIELD: i32 = 2;
const MESSAGE_NESTED: i32 = 3;
const MESSAGE_ENUM: i32 = 4;
const ENUM_VALUE: i32 = 2;
const SERVICE_METHOD: i32 = 2;

#[test]
fn every_service_method_and_message_has_a_comment() {
    assert_none(
        &without_comment(&[Kind::Service, Kind::Method, Kind::Message]),
        "say who sends it, when, and what the other side must do",
    );
}

#[test]
fn every_field_has_a_comment_unless_its_type_says_all() {
    assert_none(
        &without_comment(&[Kind::Field]),
        "say what it means, with unit, default and limit",
    );
}

#[test]
fn every_enum_and_value_has_a_comment() {
    assert_none(
        &without_comment(&[Kind::Enum, Kind::EnumValue]),
        "say what it means",
    );
}

#[test]
fn every_field_keeps_its_own_name_in_json() {
    let mut found = Vec::new();
    for file in files() {
        for (scope, message) in messages(&file) {
            let renamed = message
                .field
                .iter()
                .filter(|field| field.json_name() != field.name());
            found.extend(renamed.map(|field| format!("{scope}.{}: {}", field.name(), field.json_name())));
        }
    }
    assert_none(
        &found,
        "set `json_name` to the field's own name, so that JSON is the contract's",
    );
}

#[test]
fn every_service_is_called_so_and_every_method_has_its_own_messages() {
    let mut found = Vec::new();
    for file in files() {
        for service in &file.service {
            if !service.name().ends_with("Service") {
                found.push(service.name().to_owned());
            }
            for method in &service.method {
                let own = |type_name: &str, ending: &str| {
                    type_name.ends_with(&format!(".{}{ending}", method.name()))
                };
                if !own(method.input_type(), "Request") || !own(method.output_type(), "Response") {
                    found.push(format!("{}.{}", service.name(), method.name()));
                }
            }
        }
    }
    assert_none(
        &found,
        "a service ends in `Service`, and `Do` takes `DoRequest` and answers `DoResponse`",
    );
}

#[test]
fn every_file_says_where_its_go_code_goes() {
    let mut found = Vec::new();
    for file in files() {
        let expected = format!("escapement.dev/proto/{};", file.package().replace('.', "/"));
        let options = file.options.unwrap_or_default();
        if !options.go_package().starts_with(&expected) {
            found.push(file.name.unwrap_or_default());
        }
    }
    assert_none(&found, "set `go_package` as the other files of the package do");
}

#[test]
fn every_request_stands_beside_its_service_and_every_import_is_used() {
    let mut found = Vec::new();
    let files = files();
    // Each message of a file, as types are written.
    let defined = |file: &FileDescriptorProto| -> BTreeSet<String> {
        let messages = messages(file).into_iter();
        messages.map(|(name, _)| format!(".{name}")).collect()
    };
    for file in &files {
        let (own, messages) = (defined(file), messages(file));
        let methods: Vec<_> = file.service.iter().flat_map(|service| &service.method).collect();
        let strange = methods.iter().filter(|method| !own.contains(method.input_type()));
        found.extend(strange.map(|method| format!("{} of {}", method.input_type(), file.name())));
        let fields = messages.iter().flat_map(|(_, message)| &message.field);
        let used: Vec<&str> = fields
            .map(|field| field.type_name())
            .chain(methods.iter().map(|method| method.output_type()))
            .collect();
        for import in files
            .iter()
            .filter(|other| file.dependency.contains(&other.name().to_owned()))
        {
            // An enum counts with the message that it stands in.
            let there = defined(import);
            let is_of_import = |name: &&str| {
                let parent = name.rsplit_once('.').map_or("", |(parent, _)| parent);
                there.contains(*name) || there.contains(parent)
            };
            if !used.iter().any(is_of_import) {
                found.push(format!("{} imports {}", file.name(), import.name()));
            }
        }
    }
    assert_none(&found, "move the request to its service, or take the import out");
}

fn files() -> Vec<FileDescriptorProto> {
    let set: FileDescriptorSet = prost::Message::decode(escapement_wire::DESCRIPTORS).unwrap();
    set.file
        .into_iter()
        .filter(|file| file.package().starts_with("escapement."))
        .collect()
}

fn without_comment(kinds: &[Kind]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files() {
        let info = file.source_code_info.as_ref().expect("the build keeps comments");
        let commented: BTreeSet<&[i32]> = info
            .location
            .iter()
            .filter(|location| !location.leading_comments().trim().is_empty())
            .map(|location| location.path.as_slice())
            .collect();
        let bare = elements(&file)
            .into_iter()
            .filter(|element| kinds.contains(&element.kind));
        found.extend(
            bare.filter(|element| !commented.contains(element.path.as_slice()))
                .map(|element| element.name),
        );
    }
    found
}

fn elements(file: &FileDescriptorProto) -> Vec<Element> {
    let mut found = Vec::new();
    for (number, message) in (0..).zip(&file.message_type) {
        elements_of_message(message, file.package(), &[FILE_MESSAGE, number], &mut found);
    }
    for (number, one) in (0..).zip(&file.enum_type) {
        elements_of_enum(one, file.package(), &[FILE_ENUM, number], &mut found);
    }
    for (number, service) in (0..).zip(&file.service) {
        let name = format!("{}.{}", file.package(), service.name());
        let path = vec![FILE_SERVICE, number];
        for (number, method) in (0..).zip(&service.method) {
            let path = [path.as_slice(), &[SERVICE_METHOD, number]].concat();
            found.push(Element {
                name: format!("{name}.{}", method.name()),
                kind: Kind::Method,
                path,
            });
        }
        found.push(Element {
            name,
            kind: Kind::Service,
            path,
        });
    }
    found
}

fn elements_of_message(message: &DescriptorProto, scope: &str, path: &[i32], found: &mut Vec<Element>) {
    // Entries of maps are made by the compiler.
    if message
        .options
        .as_ref()
        .is_some_and(|options| options.map_entry())
    {
        return;
    }
    let name = format!("{scope}.{}", message.name());
    for (number, field) in (0..).zip(&message.field) {
        let path = [path, &[MESSAGE_FIELD, number]].concat();
        // A field of one of our messages or enums means what that says of itself.
        let kind = if field.type_name().starts_with(".escapement.") {
            Kind::TypedField
        } else {
            Kind::Field
        };
        found.push(Element {
            name: format!("{name}.{}", field.name()),
            kind,
            path,
        });
    }
    for (number, one) in (0..).zip(&message.enum_type) {
        elements_of_enum(one, &name, &[path, &[MESSAGE_ENUM, number]].concat(), found);
    }
    for (number, nested) in (0..).zip(&message.nested_type) {
        elements_of_message(nested, &name, &[path, &[MESSAGE_NESTED, number]].concat(), found);
    }
    found.push(Element {
        name,
        kind: Kind::Message,
        path: path.to_vec(),
    });
}

fn elements_of_enum(one: &EnumDescriptorProto, scope: &str, path: &[i32], found: &mut Vec<Element>) {
    let name = format!("{scope}.{}", one.name());
    // `unspecified` says of itself that nothing was said.
    let values = (0..)
        .zip(&one.value)
        .filter(|(_, value)| value.name() != "unspecified");
    for (number, value) in values {
        let path = [path, &[ENUM_VALUE, number]].concat();
        found.push(Element {
            name: format!("{name}.{}", value.name()),
            kind: Kind::EnumValue,
            path,
        });
    }
    found.push(Element {
        name,
        kind: Kind::Enum,
        path: path.to_vec(),
    });
}

fn messages(file: &FileDescriptorProto) -> Vec<(String, &DescriptorProto)> {
    let mut found = Vec::new();
    let mut open: Vec<(String, &DescriptorProto)> = file
        .message_type
        .iter()
        .map(|message| (file.package().to_owned(), message))
        .collect();
    while let Some((scope, message)) = open.pop() {
        let name = format!("{scope}.{}", message.name());
        open.extend(message.nested_type.iter().map(|nested| (name.clone(), nested)));
        if !message
            .options
            .as_ref()
            .is_some_and(|options| options.map_entry())
        {
            found.push((name, message));
        }
    }
    found
}
