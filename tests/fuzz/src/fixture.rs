//! Two stores with the same contents, for reading only. Made once for each thread.

use crate::scratch::Scratch;
use crate::seeds;
use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace, PlanId};
use escapement_store::{
    AcceptWrite, Embedded, EmbeddedOptions, ListFilter, Reader, Store, StoredSummary, Write,
};
use escapement_store_kit::MemoryDisk;

/// Names, tags and users of the contents: easy to mix up for who takes a text for something else.
pub(crate) const TEXTS: [&str; 12] = [
    "a",
    "A",
    "b",
    "",
    "a\0",
    "\0",
    "%",
    "'a'",
    "ä",
    "aä",
    "a b",
    "\u{1}\0\0\0a",
];

const EXECUTIONS: u8 = 20;

/// Both stores, and what they hold, oldest first.
pub(crate) struct Fixture {
    pub(crate) memory: Box<dyn Reader>,
    pub(crate) embedded: Box<dyn Reader>,
    pub(crate) summaries: Vec<StoredSummary>,
    _embedded: Embedded,
    _directory: Scratch,
}

/// Returns the execution that some of them have as their parent.
pub(crate) fn parent(n: u8) -> ExecutionId {
    seeds::id(4, n).parse().expect("it is one")
}

/// Lends the fixture of this thread.
pub(crate) fn with(look: impl FnOnce(&Fixture)) {
    thread_local! {
        static FIXTURE: Fixture = Fixture::new();
    }
    FIXTURE.with(look);
}

impl Fixture {
    fn new() -> Self {
        let directory = Scratch::new("pages");
        let mut embedded =
            Embedded::open(directory.path(), EmbeddedOptions::default()).expect("an empty store opens");
        let disk = MemoryDisk::new();
        let mut memory = disk.open();
        for n in 0..EXECUTIONS {
            let batch = writes(n);
            let expected = memory.commit(&batch).expect("memory has no fault");
            assert_eq!(
                embedded.commit(&batch).expect("a healthy store commits"),
                expected
            );
        }
        let memory = memory.reader().expect("memory gives readers");
        let mut summaries = memory
            .list(&ListFilter::default(), None, 100)
            .expect("memory reads");
        summaries.reverse();
        assert_eq!(summaries.len(), usize::from(EXECUTIONS));
        Self {
            memory,
            embedded: embedded.reader().expect("a healthy store gives readers"),
            summaries,
            _embedded: embedded,
            _directory: directory,
        }
    }
}

fn writes(n: u8) -> Vec<Write> {
    let text = |n: u8| TEXTS[usize::from(n) % TEXTS.len()].to_owned();
    let execution_id = seeds::id(3, n).parse::<ExecutionId>().expect("it is one");
    let accepted_at = seeds::UNIX_MS + i64::from(n);
    let accept = AcceptWrite {
        execution_id,
        plan_id: seeds::id(1, n).parse::<PlanId>().expect("it is one"),
        request_digest: [n; 32],
        priority: i32::from(n) - 10,
        accepted_at,
        started_at: (n % 4 == 1).then_some(accepted_at + 5),
        deadline_ms: accepted_at + 1_000,
        parent_execution_id: n.is_multiple_of(3).then(|| parent(n % 4)),
        plan_name: text(n),
        user_id: n.is_multiple_of(2).then(|| text(n / 2)),
        request_id: None,
        tags: (0..n % 4).map(|tag| text(n + tag)).collect(),
        namespace: Namespace::default(),
        record: Bytes::from(vec![n; 20]),
    };
    let settle = Write::Settle {
        execution_id,
        status: 1 + n % 3,
        started_at: None,
        settled_at: accepted_at + 50,
        outline: Bytes::from(vec![n; 2]),
        result: Bytes::from(vec![n; 20]),
        audit: Bytes::from(vec![n; 20]),
    };
    if n % 4 >= 2 {
        vec![Write::Accept(accept), settle]
    } else {
        vec![Write::Accept(accept)]
    }
}
