//! A template with its data. No loader, so it can neither include nor import;
//! nothing but the data is in reach.

use crate::eval::parent::Reply;
use crate::limits::TEMPLATE_FUEL;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use std::error::Error;
use std::io::{self, Write};

/// Renders `template` with the object in `document`.
pub(super) fn render(template: &str, document: &[u8], bytes_max: usize) -> Reply {
    let data: serde_json::Map<String, serde_json::Value> = match serde_json::from_slice(document) {
        Ok(data) => data,
        Err(error) => return Reply::WrongInput(format!("is no JSON object: {error}")),
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    environment.set_syntax(syntax.expect("the default delimiters are valid"));
    environment.set_debug(true);
    let compiled = match environment.template_from_str(template) {
        Ok(compiled) => compiled,
        Err(error) => return Reply::Malformed(describe(&error, template)),
    };
    let mut output = Bounded {
        bytes: Vec::new(),
        bytes_max,
    };
    match compiled.render_captured_to(Value::from(Serde(data)), &mut output) {
        Ok(_) => Reply::Text(String::from_utf8_lossy(&output.bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::WriteFailure => {
            Reply::Failed(format!("more than {bytes_max} bytes of output"))
        }
        Err(error) => Reply::Failed(describe(&error, template)),
    }
}

/// Returns the text of an error and its causes, with the part of the template that it is about: a name that has no value.
fn describe(error: &minijinja::Error, template: &str) -> String {
    let mut text = error.to_string();
    let part = error.range().and_then(|range| template.get(range));
    if let Some(part) = part.filter(|part| part.len() <= PART_BYTES_MAX) {
        text.push_str(&format!(": {part}"));
    }
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Bytes of a template that an error repeats.
const PART_BYTES_MAX: usize = 100;

struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
