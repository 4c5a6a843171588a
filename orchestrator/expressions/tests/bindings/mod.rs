//! What the expressions of the tests are about.

use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder};

/// As a run binds them in a loop.
pub(crate) fn bindings() -> Opaque {
    let list = ListBuilder::new().number(1.0).text("two").boolean(true);
    let deep = StructBuilder::new().list("list", list).build();
    let input = StructBuilder::new()
        .number("n", 3.0)
        .text("text", "Adjust priorities")
        .null("nothing")
        .object("deep", deep.as_encoded())
        .number("twice", 1.0)
        .number("twice", 2.0)
        .number("in", 1.0)
        .build();
    let count = StructBuilder::new().number("urgentCount", 2.0).build();
    let read = StructBuilder::new().text("text", "Read me").build();
    let results = StructBuilder::new()
        .object("count", count.as_encoded())
        .object("read-a", read.as_encoded())
        .build();
    let last = StructBuilder::new().boolean("done", false).build();
    let run = StructBuilder::new().text("id", "r-1").build();
    StructBuilder::new()
        .object("input", input.as_encoded())
        .object("run", run.as_encoded())
        .object("results", results.as_encoded())
        .number("iteration", 2.0)
        .object("last", last.as_encoded())
        .build()
}
