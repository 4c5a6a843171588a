use std::cell::Cell;

use escapement_model::opaque::{ListBuilder, StructBuilder};

use super::*;

/// Plans by their digests, and how many bytes of them were read.
#[derive(Default)]
struct Shelf {
    documents: BTreeMap<[u8; 32], Opaque>,
    n_read: Cell<usize>,
}

impl Revisions for Shelf {
    fn content(&self, digest: &[u8; 32]) -> Option<[u8; 32]> {
        self.documents
            .contains_key(digest)
            .then(|| digest.map(|byte| !byte))
    }

    fn document(&self, digest: &[u8; 32]) -> Option<Opaque> {
        let document = self.documents.get(digest)?;
        self.n_read.set(self.n_read.get() + document.as_encoded().len());
        Some(document.clone())
    }
}

impl Shelf {
    /// Puts a plan there that runs others; gives its digest.
    fn put(&mut self, name: &str, below: &[[u8; 32]], n_bytes: usize) -> [u8; 32] {
        let steps = below.iter().enumerate().map(|(n, digest)| {
            let revision = digest
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>();
            let config = StructBuilder::new().text("revision_digest", &format!("sha256:{revision}"));
            (format!("below_{n}"), "sub_plan", config.build())
        });
        let arguments = StructBuilder::new().text("text", &"x".repeat(n_bytes)).build();
        let call = StructBuilder::new()
            .text("tool_name", "echo")
            .object("tool_args", arguments.as_encoded());
        let own = [("own".to_owned(), "tool_call", call.build())];
        let steps = own.into_iter().chain(steps);
        let steps = steps.fold(ListBuilder::new(), |steps, (key, kind, config)| {
            let step = StructBuilder::new()
                .text("key", &key)
                .text("type", kind)
                .object("config", config.as_encoded());
            steps.object(step.build().as_encoded())
        });
        let document = StructBuilder::new()
            .text("schema", "escapement.plan/1")
            .text("name", name)
            .list("steps", steps)
            .build();
        let digest = plan::read(&document).expect("the plan is right").digest;
        self.documents.insert(digest, document);
        digest
    }
}

// RUN-9.11
#[test]
fn no_document_is_read_twice_and_one_that_is_gone_is_left_out() {
    let mut shelf = Shelf::default();
    let lowest = shelf.put("lowest", &[], 10);
    let middle = shelf.put("middle", &[lowest], 10);
    let top = shelf.put("top", &[middle, lowest], 10);
    let known = KnownRevisions::default();
    let all = known.documents_below(&shelf, &[top]);
    assert_eq!(all.len(), 3);
    assert!(shelf.n_read.take() > 0);
    assert_eq!(
        known.documents_below(&shelf, &[top]),
        all,
        "known ones are found again"
    );
    assert_eq!(shelf.n_read.take(), 0, "and nothing is read for that");
    shelf.documents.remove(&lowest);
    assert_eq!(known.documents_below(&shelf, &[top]).len(), 2);
}

// RUN-9.11
#[test]
fn at_most_nine_mebibytes_are_read_for_one_plan() {
    let mut shelf = Shelf::default();
    let below: Vec<_> = (0..12)
        .map(|n| shelf.put(&format!("plan {n}"), &[], 1_000_000))
        .collect();
    let known = KnownRevisions::default();
    let found = known.documents_below(&shelf, &below).len();
    assert_eq!(found, 9, "of twelve of about a mebibyte");
    assert!(shelf.n_read.take() <= DOCUMENT_BYTES + (1 << 20));
}
