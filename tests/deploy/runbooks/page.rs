//! The paragraphs of `deploy/OPERATIONS.md`.

use escapement_tests::checkout;

/// The paragraph of an alert.
pub(super) fn paragraph(alert: &str) -> String {
    let page = std::fs::read_to_string(checkout::root().join("deploy/OPERATIONS.md")).unwrap();
    let (_, rest) = page.split_once(&format!("### {alert}\n")).unwrap();
    rest.split("\n### ").next().unwrap().to_owned()
}

/// The commands of an alert's paragraph, each block for itself.
pub(super) fn blocks(alert: &str) -> Vec<String> {
    let paragraph = paragraph(alert);
    let blocks = paragraph.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap().replace("\\\n", ""));
    blocks.collect()
}

/// The one block of an alert's paragraph.
pub(super) fn commands(alert: &str) -> String {
    let mut blocks = blocks(alert);
    assert_eq!(blocks.len(), 1, "{alert}");
    blocks.remove(0)
}
