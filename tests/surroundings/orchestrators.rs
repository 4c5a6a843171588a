//! The orchestrator in every place: it serves, drains with 0, and one store passes through all of them.

use crate::place::{ODD, ORDINARY, Place, SILENT};
use crate::stage::{LIMIT, Stage};

async fn serves_in(places: &[Place]) {
    let mut stage = Stage::new();
    for place in places {
        let mut orchestrator = stage.serve(place, &["--log", "debug"]).await;
        stage.expect_kept(&orchestrator).await;
        // Two workers come and go: both leave lines in the log.
        stage.execute(&orchestrator).await;
        stage.execute(&orchestrator).await;
        let exit = orchestrator.process.terminate(LIMIT).await.unwrap();
        assert_eq!(exit.code(), Some(0), "{}", place.name);
    }
    let orchestrator = stage.serve(&ORDINARY, &[]).await;
    stage.expect_kept(&orchestrator).await;
    assert_eq!(stage.told.len(), 2 * places.len());
}

#[tokio::test]
async fn an_orchestrator_serves_where_its_log_cannot_be_written() {
    serves_in(&SILENT).await;
}

#[tokio::test]
async fn an_orchestrator_serves_wherever_it_is_started() {
    serves_in(&ODD).await;
}
