//! The databases of earlier versions, which had executions and runs in two files, in the schema of those versions to the letter.
//! The store has a list of its own, so that it shares none with the tests that judge it.

/// A database of an earlier version.
#[derive(Clone, Copy, Debug)]
pub struct EarlierDatabase {
    /// Name of its file, without `.db`.
    pub name: &'static str,
    /// Mark of its kind: `application_id`.
    pub application_id: i64,
    /// Migrations; `user_version` is the number of those that were run.
    pub migrations: &'static [&'static str],
}

/// The executions, marked "ESCP".
pub const EXECUTIONS: EarlierDatabase = EarlierDatabase {
    name: "executions",
    application_id: 0x4553_4350,
    migrations: &[
        include_str!("../../../orchestrator/store/src/earlier/executions/0001_executions.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0002_removal.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0003_starts.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0004_outlines.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0005_actions.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0006_namespaces.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0007_operators.sql"),
        include_str!("../../../orchestrator/store/src/earlier/executions/0008_settlements.sql"),
    ],
};

/// The runs, marked "ESCR".
pub const RUNS: EarlierDatabase = EarlierDatabase {
    name: "runs",
    application_id: 0x4553_4352,
    migrations: &[
        include_str!("../../../orchestrator/store/src/earlier/runs/0001_runs.sql"),
        include_str!("../../../orchestrator/store/src/earlier/runs/0002_namespaces.sql"),
        include_str!("../../../orchestrator/store/src/earlier/runs/0003_endings.sql"),
        include_str!("../../../orchestrator/store/src/earlier/runs/0004_lists.sql"),
    ],
};
