//! The paragraphs of `deploy/OPERATIONS.md`, and the parts of `deploy/A_DAY.md`.

use escapement_tests::checkout;

/// The paragraph of an alert.
pub(super) fn paragraph(alert: &str) -> String {
    part("OPERATIONS.md", "### ", alert)
}

/// The commands of an alert's paragraph, each block for itself.
pub(super) fn blocks(alert: &str) -> Vec<String> {
    blocks_in(&paragraph(alert))
}

/// The one block of an alert's paragraph.
pub(super) fn commands(alert: &str) -> String {
    let mut blocks = blocks(alert);
    assert_eq!(blocks.len(), 1, "{alert}");
    blocks.remove(0)
}

/// The commands of a part of a day, each block for itself.
pub(super) fn blocks_of_day<const N: usize>(heading: &str) -> [String; N] {
    let blocks = blocks_in(&part("A_DAY.md", "## ", heading));
    let n_blocks = blocks.len();
    let is_other = |_| panic!("{heading} has {n_blocks} blocks");
    blocks.try_into().unwrap_or_else(is_other)
}

/// The headings of a page that begin so.
pub(super) fn headings(page: &str, mark: &str) -> Vec<String> {
    let headings = read(page);
    let headings = headings.lines().filter_map(|line| line.strip_prefix(mark));
    headings.map(str::to_owned).collect()
}

fn part(page: &str, mark: &str, heading: &str) -> String {
    let page = read(page);
    let (_, rest) = page.split_once(&format!("\n{mark}{heading}\n")).unwrap();
    rest.split(&format!("\n{mark}")).next().unwrap().to_owned()
}

fn blocks_in(part: &str) -> Vec<String> {
    let blocks = part.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap().replace("\\\n", ""));
    blocks.collect()
}

fn read(page: &str) -> String {
    std::fs::read_to_string(checkout::root().join("deploy").join(page)).unwrap()
}
