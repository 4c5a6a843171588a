//! A jq filter on one JSON document. No modules, no files, no further inputs.

use crate::eval::parent::Reply;
use escapement_wire::json::outside;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, compile, data};
use jaq_json::{Val, read};
use serde_json::Value;

/// Runs `filter` on `document` until it ends, fails or exceeds a limit.
pub(super) fn run(filter: &str, document: &[u8], results_max: usize, bytes_max: usize) -> Reply {
    let input = match read::parse_single(outside::without_mark(document)) {
        Ok(input) => input,
        Err(error) => return Reply::WrongInput(format!("is no JSON: {error}")),
    };
    let arena = Arena::default();
    let loader = Loader::new(jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()));
    let modules = match loader.load(
        &arena,
        File {
            code: filter,
            path: (),
        },
    ) {
        Ok(modules) => modules,
        Err(errors) => return Reply::Malformed(load_errors(&errors)),
    };
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let compiled = match Compiler::default().with_funs(functions).compile(modules) {
        Ok(compiled) => compiled,
        Err(errors) => return Reply::Malformed(compile_errors(&errors)),
    };
    let context = Ctx::<data::JustLut<Val>>::new(&compiled.lut, Vars::new([]));
    let mut results = Vec::new();
    let mut bytes = 0;
    for result in compiled.id.run((context, input)) {
        let value = match result.map_err(|exception| exception.get_err()) {
            Ok(value) => value,
            Err(Ok(error)) => return Reply::Failed(error.to_string()),
            // `halt` ends the filter; what it has given so far stands.
            Err(Err(exception)) => match exception.get_halt() {
                Ok(0) => break,
                Ok(code) => return Reply::Failed(format!("halted with code {code}")),
                Err(_) => return Reply::Failed("ended by an unknown exception".to_owned()),
            },
        };
        let text = value.to_string();
        bytes += text.len();
        if results.len() == results_max {
            return Reply::Failed(format!("more than {results_max} results"));
        }
        if bytes > bytes_max {
            return Reply::Failed(format!("more than {bytes_max} bytes of results"));
        }
        // Read at the depth at which it stands in the reply, so that the worker can read that.
        let text = format!("[[{text}]]");
        match serde_json::from_slice::<[[Value; 1]; 1]>(&outside::exact(text.as_bytes())) {
            Ok([[value]]) => results.push(value),
            Err(error) => return Reply::Failed(format!("a result is no JSON: {error}")),
        }
    }
    Reply::Results(results)
}

fn load_errors<P>(errors: &load::Errors<&str, P>) -> String {
    let near = |rest: &str| rest.chars().take(NEAR_CHARS).collect::<String>();
    let texts = errors.iter().flat_map(|(_, error)| match error {
        load::Error::Io(failures) => failures
            .iter()
            .map(|(path, why)| format!("{path}: {why}"))
            .collect::<Vec<_>>(),
        load::Error::Lex(failures) => failures
            .iter()
            .map(|(expected, rest)| format!("expected {} at {:?}", expected.as_str(), near(rest)))
            .collect(),
        load::Error::Parse(failures) => failures
            .iter()
            .map(|(expected, rest)| format!("expected {} at {:?}", expected.as_str(), near(rest)))
            .collect(),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn compile_errors<P>(errors: &compile::Errors<&str, P>) -> String {
    let undefined = errors.iter().flat_map(|(_, errors)| errors);
    let texts = undefined.map(|(name, what)| format!("undefined {}: {name}", what.as_str()));
    texts.collect::<Vec<_>>().join("; ")
}

const NEAR_CHARS: usize = 40;
