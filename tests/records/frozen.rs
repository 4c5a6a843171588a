//! Encoded messages of the stores, each with every field set, which were written once. Today's types read the same values,
//! encode them to the same bytes, and compute the same links and digests.

use std::collections::BTreeSet;
use std::fmt::Debug;

use bytes::Bytes;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_model::{RunId, hex};
use escapement_run::catalogue::Catalogue;
use escapement_run::journal::{Entry, InputRequest};
use escapement_run::record::{self, RecordWriter};
use escapement_run::session::Session;
use escapement_run::spec::ActionProfile;
use escapement_run::state::RunState;
use escapement_runs::{InboxChange, Notice};
use escapement_runs_shell::saved::SavedPlan;
use escapement_store::Write;
use escapement_store::runs::{DefinitionKind, RunProgress, RunWrite};
use escapement_store_kit::frozen::{self, Example};
use escapement_wire::v1;
use prost::Message;
use sha2::{Digest, Sha256};

/// Checks a message and notes its name.
fn check<M: Message + Default + Debug>(name: &'static str, names: &mut BTreeSet<String>) -> Vec<Example> {
    names.insert(name.to_owned());
    frozen::check::<M>(name)
}

#[test]
fn every_message_of_the_stores_is_encoded_as_it_ever_was() {
    let mut names = BTreeSet::new();
    let of_runs = &mut names;
    check::<Entry>("entry", of_runs);
    check::<RunState>("run_state", of_runs);
    check::<Catalogue>("catalogue", of_runs);
    check::<InputRequest>("input_request", of_runs);
    check::<Notice>("notice", of_runs);
    check::<InboxChange>("inbox_change", of_runs);
    check::<SavedPlan>("saved_plan", of_runs);
    check::<ActionProfile>("action_profile", of_runs);
    check::<Session>("session", of_runs);
    check::<v1::Action>("offered_action", of_runs);
    let of_executions = &mut names;
    check::<v1::SubmitPlanRequest>("request", of_executions);
    check::<v1::StoredAcceptance>("acceptance", of_executions);
    check::<v1::StoredOutline>("outline", of_executions);
    check::<v1::PlanResult>("result", of_executions);
    check::<v1::StoredAudit>("audit", of_executions);
    check::<v1::ActionTraits>("action_traits", of_executions);
    names.extend(kept_by_the_api().map(str::to_owned));
    assert_eq!(
        frozen::names(),
        names,
        "the folder has an example of each message"
    );
}

/// Messages that the API of runs keeps to itself: its own tests check them.
fn kept_by_the_api() -> impl Iterator<Item = &'static str> {
    ["completed_goal", "firing", "goal", "header", "trigger"].into_iter()
}

// RUN-9.1
/// Checks the chain of a run over examples of entries, and its record as a file.
#[test]
fn entries_are_linked_and_recorded_as_they_ever_were() {
    let run_id = fixed_run();
    let mut link = chain_begin(&run_id);
    let mut file = Vec::new();
    let mut writer = RecordWriter::begin(run_id, &mut file);
    let examples = frozen::check::<Entry>("entry");
    for (seq, example) in (1..).zip(&examples[..ENTRIES]) {
        let bytes = Bytes::copy_from_slice(&example.bytes);
        link = chain_next(&link, seq, &bytes);
        writer.entry(&link, &bytes, &mut file).unwrap();
    }
    writer.end(&mut file);
    assert_eq!(hex::text(&link), LINK);
    assert_eq!(hex::text(&Sha256::digest(&file)), FILE_DIGEST);
    let (read, _) = record::read(&Bytes::from(file)).unwrap();
    assert_eq!(read.entries.len(), ENTRIES);
    assert!(
        read.entries
            .iter()
            .zip(&examples)
            .all(|(entry, example)| entry.bytes == example.bytes)
    );
    assert_eq!(read.entries.last().unwrap().link, link);
}

/// Number of examples when the link and the digest were computed.
const ENTRIES: usize = 50;
const LINK: &str = "c14f9e1d3a0e754f782190430d88523128bed3b63beea6c2f2c9da9601ac9ed6";
const FILE_DIGEST: &str = "0c8dc0a07deb8ebb9f67ffb61dfad17a4f77ea0e310310e43b69ac1f8de2d81c";

/// Checks that each kind of record has examples. A new kind does not compile until its messages are named.
#[test]
fn everything_that_the_stores_take_has_examples() {
    let progress = RunProgress {
        state: 0,
        updated_at: 0,
        due_at: None,
        ended_at: None,
    };
    let run = RunWrite::new(fixed_run(), 1, progress);
    let of_kinds = DefinitionKind::ALL.into_iter().flat_map(of_definition);
    let of_others = of_run(&run).into_iter().flatten();
    let of_executions = of_execution(&Write::RememberActions(Vec::new()));
    let kept = frozen::names();
    for name in of_kinds.chain(of_others).chain(of_executions) {
        assert!(kept.contains(*name), "{name}");
    }
}

fn fixed_run() -> RunId {
    "01234567-89ab-4cde-8f01-23456789abcd".parse().unwrap()
}

/// Returns the messages that a definition of that kind is stored as.
fn of_definition(kind: DefinitionKind) -> &'static [&'static str] {
    match kind {
        DefinitionKind::SavedPlan => &["saved_plan"],
        DefinitionKind::ActionProfile => &["action_profile"],
        DefinitionKind::Session => &["session"],
        DefinitionKind::Trigger => &["trigger"],
        DefinitionKind::Goal => &["goal"],
        DefinitionKind::Firing => &["firing"],
        DefinitionKind::OfferedAction => &["offered_action"],
        // Events of runs are their ids.
        DefinitionKind::Event => &["completed_goal"],
        DefinitionKind::Mark => &[],
    }
}

/// Returns the messages in a write of a run.
fn of_run(write: &RunWrite) -> [&'static [&'static str]; 5] {
    let RunWrite {
        entries: _,
        snapshot: _,
        contents: _,
        opened: _,
        closed: _,
        notices: _,
        // Columns.
        run_id: _,
        created: _,
        next_seq: _,
        keep_from: _,
        progress: _,
        pinned: _,
        released: _,
        purges: _,
        requests: _,
    } = write;
    [
        &["entry", "header"],
        &["run_state"],
        &["catalogue"],
        &["input_request"],
        &["notice", "inbox_change"],
    ]
}

/// Returns the messages in a write of executions.
fn of_execution(write: &Write) -> &'static [&'static str] {
    match write {
        Write::Accept(_) => &["request", "acceptance"],
        Write::Settle { .. } => &["outline", "result", "audit"],
        // Columns.
        Write::Start { .. } | Write::RememberActions(_) | Write::Operator(_) => &[],
    }
}
