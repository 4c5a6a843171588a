//! Wall clocks that are wrong from the start. What happens within one lifetime is `tests/sessions/clocks.rs`.

use escapement_tests::tool;

use crate::place::{ORDINARY, Place};
use crate::stage::{LIMIT, Stage};

/// Sets the wall clock only; preloaded as `faketime` does it, which would stay as a process in between.
macro_rules! clock {
    ($name:literal, $time:literal) => {
        Place::new(
            $name,
            concat!(
                "export LD_PRELOAD=$(faketime -m -f +0 printenv LD_PRELOAD) FAKETIME='",
                $time,
                r#"' FAKETIME_DONT_FAKE_MONOTONIC=1; exec "$@""#
            ),
        )
    };
}

/// With [`KEEP`] the last two would make everything old that was settled before.
const CLOCKS: [(Place, &[&str]); 5] = [
    (ORDINARY, &[]),
    (clock!("yesterday", "-1d"), &[]),
    (clock!("1970", "@1970-01-01 00:00:09"), &[]),
    (ORDINARY, &KEEP),
    (clock!("2099", "@2099-12-31 23:59:57"), &KEEP),
];

/// Two days.
const KEEP: [&str; 2] = ["--keep-settled-ms", "172800000"];

// Nothing that was told is older than this test, whatever the clock says.
#[tokio::test]
async fn a_clock_that_is_wrong_at_the_start_takes_nothing_away() {
    if tool("faketime", "`cargo verify` installs it on Debian").is_none() {
        return;
    }
    let mut stage = Stage::new();
    for (place, flags) in CLOCKS {
        let mut orchestrator = stage.serve(&place, flags).await;
        stage.execute(&orchestrator).await;
        stage.expect_kept(&orchestrator).await;
        let exit = orchestrator.process.terminate(LIMIT).await.unwrap();
        assert_eq!(exit.code(), Some(0), "{}", place.name);
    }
}
