//! The books of a campaign whose children are scripts. Builds nothing and starts no orchestrator.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Fault;
use crate::lanes::{Ended, run};
use crate::options::Options;
use crate::programs::{Programs, executable};
use crate::state::{KILLS_EACH, Kind, SEEDS_EACH, State, Totals, Work};

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("escapement-campaign-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        // Written under another name first: a file that is open for writing cannot be executed.
        let draft = self.0.join(format!("{name}.new"));
        std::fs::write(&draft, format!("#!/bin/sh\nset -u\n{text}\n")).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        path
    }

    /// Children that behave, and write down their orders.
    fn programs(&self, simulation: &str) -> Programs {
        Programs {
            simulation: self.script("simulation", simulation),
            runs: self.script("runs", RUNS),
            crashes: self.script("crashes", CRASHES),
            binaries: self.0.clone(),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SIMULATION: &str = r#"
echo "$ESCAPEMENT_SEEDS_FROM $ESCAPEMENT_SEEDS $1" >> "$ESCAPEMENT_BINARIES/orders"
echo "{\"seeds\":$ESCAPEMENT_SEEDS,\"operations\":10,\"faults\":2,\"trace_hash\":\"00\"}" > "$ESCAPEMENT_REPORT""#;
const RUNS: &str = r#"
echo "{\"seeds\":$ESCAPEMENT_SEEDS,\"operations\":7,\"faults\":1}" > "$ESCAPEMENT_REPORT""#;
const CRASHES: &str = r#"
echo "{\"kills\":$ESCAPEMENT_KILLS,\"operations\":5,\"faults\":3}" > "$ESCAPEMENT_REPORT""#;
const MOMENT: Duration = Duration::from_millis(300);

fn play(folder: &Folder, programs: &Programs, seed: Option<u64>, duration: Duration) -> Result<Ended, Fault> {
    run(programs, &folder.0, State::load(&folder.0, seed)?, duration, 2)
}

fn orders(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("orders")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn reports_are_added_up_and_the_next_campaign_goes_on_behind() {
    let folder = Folder::new("sums");
    let programs = folder.programs(SIMULATION);
    let first = play(&folder, &programs, Some(1000), MOMENT).unwrap();
    let Totals {
        seeds,
        run_seeds,
        kills,
        operations,
        faults,
        violations,
    } = first.totals;
    let (n_seed_runs, n_kill_runs) = (seeds / SEEDS_EACH, kills / KILLS_EACH);
    let n_run_runs = run_seeds / SEEDS_EACH;
    assert!(
        n_seed_runs > 1 && n_run_runs > 0 && n_kill_runs > 1,
        "{:?}",
        first.totals
    );
    assert_eq!((seeds % SEEDS_EACH, kills % KILLS_EACH), (0, 0));
    assert_eq!(operations, 10 * n_seed_runs + 7 * n_run_runs + 5 * n_kill_runs);
    assert_eq!(
        (faults, violations),
        (2 * n_seed_runs + n_run_runs + 3 * n_kill_runs, 0)
    );
    let second = play(&folder, &programs, None, MOMENT).unwrap();
    let mut sum = first.totals;
    sum.add(&second.totals);
    assert_eq!(second.state.totals, sum);
    // Every range once, without gaps, by the one test that takes orders.
    let expected: Vec<String> = (0..sum.seeds / SEEDS_EACH)
        .map(|n| {
            format!(
                "{} {SEEDS_EACH} whatever_happens_every_execution_settles_once_and_no_rule_is_broken",
                1000 + n * SEEDS_EACH
            )
        })
        .collect();
    assert_eq!(orders(&folder.0), expected);
    // Nothing but the state, the scripts and the orders is left.
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 5);
}

#[test]
fn a_violation_ends_the_campaign_and_names_the_command_that_repeats_it() {
    let folder = Folder::new("violation");
    let broken = format!(
        "if [ \"$ESCAPEMENT_SEEDS_FROM\" = 201 ]; then\n\
         echo 'seed 207: lost'; echo 'again: ESCAPEMENT_SEED=207 cargo test -p escapement-tests --test simulation'; exit 101\n\
         fi\n{SIMULATION}"
    );
    let programs = folder.programs(&broken);
    let ended = play(&folder, &programs, Some(1), Duration::from_secs(60)).unwrap();
    assert_eq!(ended.totals.violations, 1);
    assert_eq!(ended.totals.seeds, SEEDS_EACH);
    let [text] = &ended.violations[..] else {
        panic!("{:?}", ended.violations)
    };
    assert!(text.contains("seed 207: lost"), "{text}");
    assert_eq!(
        text.lines().last().unwrap(),
        "repeat it with: ESCAPEMENT_SEED=207 cargo test --release -p escapement-tests --test simulation"
    );
    // It is still to be done, and comes first next time.
    let programs = folder.programs(SIMULATION);
    let ended = play(&folder, &programs, None, MOMENT).unwrap();
    assert_eq!(ended.totals.violations, 0);
    let orders = orders(&folder.0);
    assert!(
        orders[0].starts_with("1 ") && orders[1].starts_with("201 ") && orders[2].starts_with("401 "),
        "{orders:?}"
    );
}

#[test]
fn a_child_that_proves_nothing_is_a_violation() {
    for (n, simulation) in [
        "exit 0",
        "echo '{\"seeds\":1,\"operations\":10,\"faults\":2}' > \"$ESCAPEMENT_REPORT\"",
        "echo '{\"seeds\":200,\"operations\":0,\"faults\":2}' > \"$ESCAPEMENT_REPORT\"",
        "echo 'no report' > \"$ESCAPEMENT_REPORT\"",
        "kill -9 $$",
    ]
    .into_iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("nothing-{n}"));
        let ended = play(
            &folder,
            &folder.programs(simulation),
            Some(1),
            Duration::from_secs(60),
        )
        .unwrap();
        assert_eq!(ended.totals.violations, 1, "{simulation}");
        let last = ended.violations[0].lines().last().unwrap().to_owned();
        assert!(
            last.contains("ESCAPEMENT_SEEDS_FROM=1 ESCAPEMENT_SEEDS=200 cargo test --release"),
            "{last}"
        );
    }
}

#[test]
fn what_was_interrupted_is_done_first() {
    let folder = Folder::new("interrupted");
    let mut state = State::load(&folder.0, Some(1)).unwrap();
    let first = state.take(Kind::Seeds, &[]).unwrap();
    let second = state.take(Kind::Seeds, &[first]).unwrap();
    let kills = state.take(Kind::Kills, &[first, second]).unwrap();
    let totals = Totals {
        seeds: 200,
        ..Totals::default()
    };
    state.done(second, &totals).unwrap();
    // As whoever comes after Ctrl-C finds it.
    let mut state = State::load(&folder.0, None).unwrap();
    assert_eq!(state.open, [first, kills]);
    assert_eq!(state.totals, totals);
    assert_eq!(state.take(Kind::Seeds, &[]).unwrap(), first);
    let next = Work {
        kind: Kind::Seeds,
        from: 401,
        count: SEEDS_EACH,
    };
    assert_eq!(state.take(Kind::Seeds, &[first]).unwrap(), next);
    assert_eq!(state.take(Kind::Kills, &[]).unwrap(), kills);
}

#[test]
fn a_state_that_cannot_be_read_is_named() {
    let folder = Folder::new("unreadable");
    std::fs::write(folder.0.join("state.json"), "{\"next_seed\":1}").unwrap();
    let fault = State::load(&folder.0, None).unwrap_err().to_string();
    assert!(
        fault.contains("state.json") && fault.contains("remove it to begin anew"),
        "{fault}"
    );
    State::load(&folder.0, Some(5)).unwrap();
}

#[test]
fn a_child_that_cannot_be_started_is_a_fault() {
    let folder = Folder::new("missing");
    let programs = Programs {
        simulation: folder.0.join("nothing"),
        ..folder.programs(SIMULATION)
    };
    let fault = play(&folder, &programs, Some(1), Duration::from_secs(60))
        .unwrap_err()
        .to_string();
    assert!(fault.contains("nothing"), "{fault}");
}

#[test]
fn the_command_line_and_the_messages_of_cargo_are_read() {
    let options = |words: &[&str]| Options::of(words.iter().map(|word| (*word).to_owned()));
    let read = options(&["--minutes", "2", "--seed", "7"]).unwrap();
    assert_eq!((read.duration, read.seed), (Duration::from_secs(120), Some(7)));
    for wrong in [
        &[][..],
        &["--minutes"],
        &["--minutes", "0"],
        &["--minutes", "x"],
        &["--seed", "1"],
        &["--hours", "1"],
    ] {
        assert!(
            options(wrong).unwrap_err().to_string().starts_with("usage"),
            "{wrong:?}"
        );
    }
    let messages = concat!(
        "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"simulation\"},\"profile\":{\"test\":false},\"executable\":\"/no\"}\n",
        "not json\n",
        "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"simulation\"},\"profile\":{\"test\":true},\"executable\":\"/yes\"}\n",
    );
    assert_eq!(executable(messages, "simulation").unwrap(), Path::new("/yes"));
    assert!(
        executable(messages, "crashes")
            .unwrap_err()
            .to_string()
            .contains("crashes")
    );
}

#[test]
fn the_last_line_has_its_form() {
    let totals = Totals {
        seeds: 1,
        run_seeds: 5,
        kills: 2,
        operations: 3,
        faults: 4,
        violations: 0,
    };
    let expected = r#"{"seeds":1,"run_seeds":5,"kills":2,"operations":3,"faults":4,"violations":0}"#;
    assert_eq!(totals.to_string(), expected);
}
