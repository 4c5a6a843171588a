//! The law of runs a second time, as plainly as it can be written: slow scans, whole copies, virtual time. Knows nothing of
//! bytes, and shares no code with what it judges.
//!
//! It is told what follows, and so the exploration cannot find a mistake in it. Others judge that:
//!
//! - **Whether a plan is one, and its canonical order** (RUN-1.1 to RUN-1.5): its plans are lists in that order, and name steps
//!   by their places, because it reads no documents. `orchestrator/run/tests/plans` does.
//! - **What a template comes to** (RUN-1.6, RUN-1.7): no step of its plans refers to another one, so every payload is the same and a
//!   result is known by its action (RUN-12.6). The same tests, and the judge of simulated runs, render payloads.
//! - **Limits, policies and what is known of actions** (RUN-7.1): they are resolved before a run begins, by tables that a second
//!   writing would repeat. Stories S85 and those of `orchestrator/run` hold them.
//! - **The class of an outcome** (RUN-5.1): it begins where the end of an execution is one of the seven classes. The stories of
//!   attempts in `orchestrator/run` read ends of executions.
//! - **What bytes say**: that an output asks for a pause (RUN-4.7), what a model or a safety action answers (RUN-4.11, RUN-6.11),
//!   and that an answer has the wrong type (RUN-6.5) are words to it. The translation in `product` writes them as bytes for the core.
//! - **What an expression comes to, and how a child run ends** (RUN-4.10, RUN-4.12): the core is told, too; both are inputs.
//! - **How much a run may keep** (RUN-9.6, RUN-9.13): it knows no bytes. The stories of sizes in `orchestrator/run` do.
//! - **Digests, ids and who somebody is** (RUN-4.3, RUN-6.3, RUN-6.8): a subject is this one or another one, attempts and requests have
//!   numbers, and a responder is a person, the user of the run, or an agent. `product` finds the unit from which an id of the core
//!   follows, and fails if there is none.

mod fallback;
pub mod misreading;
mod operators;
mod people;
pub mod plan;
pub mod planning;
pub mod run;
mod time;
mod turns;
mod units;
pub mod view;
pub mod words;
