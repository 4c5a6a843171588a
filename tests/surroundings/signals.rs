//! Signals to an orchestrator: those that ask for the end drain it, and no other one loses anything that was acknowledged.

use crate::place::ORDINARY;
use crate::stage::{LIMIT, Stage, echo};
use escapement_wire::v1::WaitExecutionRequest;
use rustix::process::Signal;

/// What ends an orchestrator by a drain.
const DRAINS: [Signal; 3] = [Signal::HUP, Signal::TERM, Signal::INT];
/// What it goes on after.
const PASSES: [Signal; 5] = [
    Signal::PIPE,
    Signal::WINCH,
    Signal::CONT,
    Signal::URG,
    Signal::CHILD,
];
/// What means nothing to it; the system may end it.
const FOREIGN: [Signal; 4] = [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::QUIT];

#[tokio::test]
async fn a_signal_that_asks_for_the_end_drains_and_every_other_one_loses_nothing() {
    let mut stage = Stage::new();
    for signal in DRAINS {
        let mut orchestrator = stage.serve(&ORDINARY, &[]).await;
        for signal in PASSES {
            orchestrator.process.signal(signal).unwrap();
        }
        stage.execute(&orchestrator).await;
        orchestrator.process.signal(signal).unwrap();
        let exit = orchestrator.process.exit(LIMIT).await.unwrap();
        assert_eq!(exit.code(), Some(0), "{signal:?}");
    }
    for signal in FOREIGN {
        let mut orchestrator = stage.serve(&ORDINARY, &[]).await;
        stage.execute(&orchestrator).await;
        let waits = echo().submit();
        let waits = orchestrator
            .plans()
            .submit_plan(waits)
            .await
            .unwrap()
            .into_inner();
        let waits = waits.execution.unwrap().execution_id;
        orchestrator.process.signal(signal).unwrap();
        if orchestrator.process.is_running() {
            orchestrator.process.kill().unwrap();
        }
        let orchestrator = stage.serve(&ORDINARY, &[]).await;
        stage.expect_kept(&orchestrator).await;
        let request = WaitExecutionRequest {
            execution_id: waits,
            timeout_ms: Some(0),
        };
        let known = orchestrator.plans().wait_execution(request).await;
        assert!(known.is_ok(), "{signal:?}: {known:?}");
    }
}
