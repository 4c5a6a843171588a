//! What keeps restored runs from doing once more what they have done since their backup: they are paused, and what the
//! restored executions do not know is in doubt. Decides nothing that the law of runs does not.

use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::AttemptOutcome;
use escapement_run::{Effect, Input};
use escapement_runs::Config;
use escapement_runs_host::RunsHost;
use escapement_store::runs::RunStore;
use escapement_store::{Embedded, Store, StoreFault};

/// Pauses every run that has not ended; returns how many were paused.
pub(crate) fn hold_back(store: &mut Embedded, now: i64) -> Result<u64, StoreFault> {
    let executions = Store::reader(store)?;
    // None is admitted.
    let config = Config {
        max_live_runs: 0,
        max_runs: usize::MAX,
    };
    let (mut host, _damaged) = RunsHost::open(store, config, now)?;
    let ids: Vec<_> = host.runs().ids().collect();
    let mut n_paused = 0;
    for run_id in ids {
        let reason = "restored_from_backup".to_owned();
        // One that shall pause already refuses, and one whose time has come is not there any more.
        n_paused += u64::from(host.handle(run_id, Input::Pause { reason }, now).is_ok());
    }
    write(&mut host, store)?;
    for (run_id, effect) in host.poll_effects() {
        let Effect::Submit { execution_id, .. } = effect else {
            continue;
        };
        let is_known = executions.execution_or_ending(execution_id)?.is_some()
            || executions.removed(execution_id)?.is_some();
        if !is_known {
            let outcome = AttemptOutcome {
                class: OutcomeClass::Unknown,
                output: None,
                code: "UNKNOWN_ERROR".to_owned(),
                message: "The backup does not say what became of the execution.".to_owned(),
                pause: false,
                ..AttemptOutcome::default()
            };
            let settled = Input::Settled {
                execution_id,
                outcome,
            };
            // A run that has ended meanwhile waits for nothing.
            let _ended = host.handle(run_id, settled, now);
        }
    }
    write(&mut host, store)?;
    Ok(n_paused)
}

fn write(host: &mut RunsHost, store: &mut Embedded) -> Result<(), StoreFault> {
    while let Some(batch) = host.poll_batch() {
        let outcome = RunStore::commit(store, &batch)?;
        host.handle_committed(outcome);
    }
    Ok(())
}
