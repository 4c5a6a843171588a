//! Wall clocks that are wrong from the start. What happens within one lifetime is `tests/sessions/clocks.rs`.

use std::time::{SystemTime, UNIX_EPOCH};

use escapement_tests::clock_layer::WallClock;

use crate::place::{ORDINARY, Place};
use crate::stage::{LIMIT, Stage};

/// Sees the clock of the stage.
const ANOTHER_CLOCK: Place = Place::new(
    "another clock",
    r#"export LD_PRELOAD="$HERE/clock_layer.so" ESCAPEMENT_CLOCK_LAYER="$HERE/clock_layer"; exec "$@""#,
);

/// Nine seconds into 1970.
const LONG_AGO_S: i64 = 9;

/// Three seconds before the year 2100.
const FAR_AHEAD_S: i64 = 4_102_444_797;

/// Two days.
const KEEP: [&str; 2] = ["--keep-settled-ms", "172800000"];

// Nothing that was told is older than this test, whatever the clock says. With `KEEP` the last two clocks would make
// everything old that was settled before.
#[tokio::test]
async fn a_clock_that_is_wrong_at_the_start_takes_nothing_away() {
    let mut stage = Stage::new();
    let clock = WallClock::new(stage.directory.path()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_s = i64::try_from(now.as_secs()).unwrap();
    for (place, off_s, flags) in [
        (ORDINARY, 0, &[][..]),
        (ANOTHER_CLOCK, -86_400, &[]),
        (ANOTHER_CLOCK, LONG_AGO_S - now_s, &[]),
        (ORDINARY, 0, &KEEP),
        (ANOTHER_CLOCK, FAR_AHEAD_S - now_s, &KEEP),
    ] {
        clock.set(off_s).unwrap();
        let mut orchestrator = stage.serve(&place, flags).await;
        stage.execute(&orchestrator).await;
        stage.expect_kept(&orchestrator).await;
        let exit = orchestrator.process.terminate(LIMIT).await.unwrap();
        assert_eq!(exit.code(), Some(0), "off by {off_s} s");
    }
}
