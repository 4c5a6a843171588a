//! Every call that there is has a row, every row is that of a call, and the page shows them all.

extern crate std;

use super::{Row, row};
use crate::role::Role;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message as _;
use std::path::Path;
use std::sync::OnceLock;

/// The calls that come with libraries, by their service.
const OF_LIBRARIES: [(&str, &[&str]); 3] = [
    ("grpc.health.v1.Health", &["Check", "List", "Watch"]),
    ("grpc.reflection.v1.ServerReflection", &["ServerReflectionInfo"]),
    (
        "grpc.reflection.v1alpha.ServerReflection",
        &["ServerReflectionInfo"],
    ),
];

/// Returns every service and its methods, in the order of the protos.
fn services() -> Vec<(String, Vec<String>)> {
    let files = prost_types::FileDescriptorSet::decode(escapement_wire::DESCRIPTORS).unwrap();
    let mut services = Vec::new();
    for file in files.file {
        for service in &file.service {
            let methods = service.method.iter().map(|method| method.name().to_owned());
            services.push((
                format!("{}.{}", file.package(), service.name()),
                methods.collect(),
            ));
        }
    }
    services.extend(OF_LIBRARIES.map(|(service, methods)| {
        (
            service.to_owned(),
            methods.iter().map(|&method| method.to_owned()).collect(),
        )
    }));
    services
}

/// Returns the path of every call, read once.
pub(crate) fn paths() -> &'static [String] {
    static PATHS: OnceLock<Vec<String>> = OnceLock::new();
    let of_service = |(service, methods): (String, Vec<String>)| {
        methods
            .into_iter()
            .map(move |method| format!("/{service}/{method}"))
    };
    PATHS.get_or_init(|| services().into_iter().flat_map(of_service).collect())
}

#[test]
fn every_call_has_a_row() {
    let without: Vec<&String> = paths().iter().filter(|path| row(path).is_none()).collect();
    assert!(without.is_empty(), "give them rows in matrix.rs: {without:?}");
}

#[test]
fn what_is_no_call_has_no_row() {
    for path in [
        "",
        "/",
        "/escapement.v1.PlanExecutionService/",
        "escapement.v1.FleetService/ListWorkers",
        "/a/b",
    ] {
        assert_eq!(row(path), None, "{path:?}");
    }
}

#[test]
fn the_page_shows_the_table_of_the_code() {
    let page_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/AUTHORIZATION.md");
    let page = std::fs::read_to_string(&page_path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the marks");
    let (shown, after) = rest.split_once(END).expect("the page has the marks");
    let table = table();
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        let page = [before, BEGIN, &table, END, after].concat();
        return std::fs::write(&page_path, page).unwrap();
    }
    assert_eq!(shown, table, "ESCAPEMENT_WRITE=1 writes it anew");
}

/// Returns the table, with methods that follow each other and have one row in one line.
fn table() -> String {
    let mut table = String::from(HEAD);
    for (service, methods) in services() {
        let mut lines: Vec<(Vec<String>, Row)> = Vec::new();
        for method in methods {
            let row = row(&format!("/{service}/{method}")).unwrap();
            match lines.iter_mut().find(|(_, other)| *other == row) {
                Some((methods, _)) => methods.push(method),
                None => lines.push((Vec::from([method]), row)),
            }
        }
        for (methods, row) in lines {
            let methods = methods.iter().map(|method| format!("`{method}`"));
            let methods: Vec<String> = methods.collect();
            let [viewer, submitter, worker, operator, admin] = Role::ALL.map(|role| row.of(role).mark());
            table += &format!(
                "| `{service}`: {} | {} | {viewer} | {submitter} | {worker} | {} | {operator} | {admin} |\n",
                methods.join(", "),
                row.anonymous.mark(),
                row.attempt.mark(),
            );
        }
    }
    table
}

const BEGIN: &str = "<!-- table -->\n";
const END: &str = "<!-- end of table -->\n";
const HEAD: &str = "| call | anonymous | viewer | submitter | worker | attempt | operator | admin |\n\
                    |---|---|---|---|---|---|---|---|\n";
