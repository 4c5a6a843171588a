//! One template with its data. No loader, so it can neither include nor import;
//! nothing but the data is in reach.

use crate::evaluate::Reply;
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
    let template = match environment.template_from_str(template) {
        Ok(template) => template,
        Err(error) => return Reply::Malformed(describe(&error)),
    };
    let mut output = Bounded {
        bytes: Vec::new(),
        bytes_max,
    };
    match template.render_captured_to(Value::from(Serde(data)), &mut output) {
        Ok(_) => Reply::Text(String::from_utf8_lossy(&output.bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::WriteFailure => {
            Reply::Failed(format!("more than {bytes_max} bytes of output"))
        }
        Err(error) => Reply::Failed(describe(&error)),
    }
}

fn describe(error: &minijinja::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

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
