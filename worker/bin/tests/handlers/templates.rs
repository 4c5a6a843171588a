//! `template.render`.

use super::{closed, context, input, kind, with_root};
use escapement_sdk::StepError;
use escapement_worker::config::Config;
use escapement_worker::handlers::template_render::{Output, run};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;

async fn render_in(config: Config, payload: Value) -> Result<Output, StepError> {
    run(input(payload), context(), Arc::new(config)).await
}

async fn render(payload: Value) -> Result<Output, StepError> {
    render_in(closed(), payload).await
}

#[tokio::test]
async fn data_fills_the_template_unescaped() {
    let template = "{% for n in names %}{{ loop.index }}. {{ n | upper }} <{{ o | tojson }}>\n{% endfor %}";
    let output = render(json!({ "template": template, "data": { "names": ["a"], "o": { "k": 1 } } }))
        .await
        .unwrap();
    assert_eq!(output.text.unwrap(), "1. A <{\"k\": 1}>\n");
}

#[tokio::test]
async fn what_is_not_defined_is_an_error() {
    for template in [
        "{{ missing }}",
        "{{ data.missing.deeper }}",
        "{% for x in missing %}{% endfor %}",
    ] {
        let error = render(json!({ "template": template, "data": { "data": {} } }))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "TEMPLATE_ERROR", "{template}");
    }
}

#[tokio::test]
async fn a_syntax_error_is_an_invalid_payload() {
    let error = render(json!({ "template": "{% if %}" })).await.unwrap_err();
    assert_eq!(kind(&error), "INVALID_PAYLOAD fatal");
}

#[tokio::test]
async fn a_template_cannot_read_files() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("secret"), "s3cret").unwrap();
    let absolute = directory.path().join("secret").display().to_string();
    let (config, _kept) = (Arc::new(config), directory);
    for name in ["secret", absolute.as_str(), "/etc/hostname"] {
        for template in [
            format!("{{% include '{name}' %}}"),
            format!("{{% extends '{name}' %}}"),
            format!("{{% import '{name}' as x %}}{{{{ x }}}}"),
        ] {
            let payload = json!({ "template": template });
            let error = run(input(payload), context(), config.clone()).await.unwrap_err();
            assert_eq!(error.code(), "TEMPLATE_ERROR", "{template}: {error}");
            assert!(!error.message().contains("s3cret"));
        }
    }
}

#[tokio::test]
async fn endless_work_and_endless_output_are_stopped() {
    let spin = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
    let error = render(json!({ "template": spin })).await.unwrap_err();
    assert_eq!(error.code(), "TEMPLATE_ERROR");
    let flood = "{% for a in range(10000) %}{{ 'x' * 1000 }}{% endfor %}";
    let error = render(json!({ "template": flood })).await.unwrap_err();
    assert!(error.message().contains("bytes of output"), "{error}");
}

#[tokio::test]
async fn a_name_without_a_value_is_told() {
    for (template, name) in [("{{ who }}", "who"), ("{{ data.inner.deep }}", "data.inner")] {
        let payload = json!({ "template": template, "data": { "data": {} } });
        let error = render(payload).await.unwrap_err();
        assert!(error.message().contains(name), "{error}");
    }
}

#[tokio::test]
async fn files_carry_templates_data_and_texts() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("t"), "{{ who.name }} is {{ what }}").unwrap();
    fs::write(directory.path().join("who.json"), r#"{"name": "Ada"}"#).unwrap();
    let payload = json!({
        "template_file": "t", "data": { "what": "here" }, "data_files": { "who": "who.json" },
        "output_file": "o/text"
    });
    let output = render_in(config, payload).await.unwrap();
    assert_eq!((output.text, output.output_file.unwrap().bytes), (None, 11));
    assert_eq!(
        fs::read_to_string(directory.path().join("o/text")).unwrap(),
        "Ada is here"
    );
}

#[tokio::test]
async fn one_name_cannot_come_from_two_places() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("f"), "1").unwrap();
    let payload = json!({ "template": "", "data": { "a": 1 }, "data_files": { "a": "f" } });
    assert_eq!(
        render_in(config, payload).await.unwrap_err().code(),
        "INVALID_PAYLOAD"
    );
}

#[tokio::test]
async fn a_data_file_keeps_its_digits_and_may_begin_with_a_byte_order_mark() {
    let (config, directory) = with_root();
    let text = "\u{feff}{\"id\": 123456789012345678901234567890, \"n\": 7}";
    fs::write(directory.path().join("in.json"), text).unwrap();
    let payload = json!({ "template": "{{ d.id }} {{ d.n + 1 }}", "data_files": { "d": "in.json" } });
    let output = run(input(payload), context(), Arc::new(config)).await.unwrap();
    assert_eq!(output.text.as_deref(), Some("123456789012345678901234567890 8"));
}
