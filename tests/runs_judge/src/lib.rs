//! Judges runs from the outside: from the bytes of their journals, what crossed the port to the contract, what workers did, and
//! what callers were told. Shares no code with what it judges, and decides nothing about a run.
//!
//! It reads plans whose documents list their steps in canonical order.
//!
//! | invariant | what is judged |
//! |---|---|
//! | RI1 | what was acknowledged is there after any crash, unchanged; what holds while it lasts holds |
//! | RI2 | one end, last; nothing after it |
//! | RI3 | no unit has two live attempts; an attempt has one outcome; it was intended durably before it was sent |
//! | RI4 | what completed is not done again in its epoch |
//! | RI5 | the same of language models |
//! | RI6 | what is gated is sent only with an approval of exactly that, by those who may give it |
//! | RI7 | what belongs to an earlier epoch, or to a step that has ended, changes nothing |
//! | RI8 | every state that is no end is left in time, and no run lives longer than it may by a clock outside; retries are counted |
//! | RI9 | one step, one attempt, fresh ids that follow from the attempt; the same intent has the same bytes |
//! | RI10 | what is sent is what its template names |
//! | RI11 | the state of a session is what its patches make of it, one after another, for every reader |
//! | RI12 | what a run does without it never calls again by a plan of its planner |
//! | RI13 | the journal is a chain without gaps; what it is folded to is what its writer had |
//! | RI14 | an output is that of the result, as the worker gave it |
//! | RI15 | an attempt is intended, and a child started, only if what is used and reserved leaves room for it, and handlers use no more |
//! | RI16 | every instant of a schedule and every event has one firing, which says what became of it; each has its run, and no other |
//! | RI17 | no other revision and no fork makes an effect again that completed or is in doubt, unless the law or a person allows it |
//! | RI18 | every revision keeps to the constraints of its run and of its plan; a run completes with what it must make, seen to be right |
//! | RI19 | steps run at once only as the plan, its marks and the policy say, and no more of them than may |
//! | J1 | no execution of an attempt is durable without its intent in a journal |
//! | J2 | no outcome of an attempt is in a journal without the durable end of its execution, which has the same outcome |
//! | J3 | no row that was shown outside is absent, or older, after a power cut |
//! | J4 | no limit ends a run ahead of an outcome, or the end of a child run, that had arrived |
//!
//! RI1 and RI3 judge the same by messages and single entries; J1 to J4 need the stores alone.
//! Of RI16 the driver judges that one run of a saved plan lives.

mod canonical;
mod journal;
mod judge;
mod wire;

pub use judge::{Accepted, Bounds, Done, Finding, Judge, Overlap, Row, Rule, Shown, Told};
pub use wire::Value;

/// Names of the invariants that are judged here.
pub const INVARIANTS: [&str; 23] = [
    "RI1", "RI2", "RI3", "RI4", "RI5", "RI6", "RI7", "RI8", "RI9", "RI10", "RI11", "RI12", "RI13", "RI14",
    "RI15", "RI16", "RI17", "RI18", "RI19", "J1", "J2", "J3", "J4",
];
