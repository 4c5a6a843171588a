//! Stories of one run: each drives the state machine by hand and looks at what it wrote down and what it wants done.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod allowances;
mod artifacts;
mod attempts;
mod branches;
mod budgets;
mod costs;
mod disk;
mod doubts;
mod entries;
mod explained;
mod expressions;
mod failures;
mod fallbacks;
mod forks;
mod frozen;
mod hostile;
mod limits;
mod models;
mod names;
mod parsers;
mod people;
mod planned;
mod planning;
mod prompts;
mod records;
mod recovery;
mod replays;
mod revisions;
mod safety;
mod schemas;
mod sessions;
mod sizes;
mod steps;
mod subjects;
mod substitutions;
mod verbs;
mod words;
mod world;
