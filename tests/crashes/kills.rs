//! SIGKILL at random moments under load, restart on the same store and address, while the load goes on.
//! Every call feeds the history checker; at the end of a round everything settles and every surface agrees.
//!
//! `ESCAPEMENT_KILLS` says how many kills there are, `ESCAPEMENT_SEEDS_FROM` the seed of the first round;
//! `ESCAPEMENT_REPORT` names a file for the figures. A seed shapes a round and does not fix what the machine does with it.

mod dice;
mod load;
mod witness;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use escapement_tests::history::{Life, Report};
use escapement_tests::{Worker, WorkerSettings, let_pass, wait_for};
use escapement_wire::v1::execution::State;
use rustix::process::Signal;
use tokio::task::JoinSet;

use self::dice::Draws as _;
use self::load::Load;
use self::witness::Witness;
use crate::caller::Caller;
use crate::is_long;
use crate::world::World;
use escapement_tests::Dice;

/// What happened, by name.
type Figures = BTreeMap<String, u64>;

//
#[tokio::test(flavor = "multi_thread")]
async fn kills_under_load_lose_nothing_that_was_told() {
    let began = Instant::now();
    let n_kills = number("ESCAPEMENT_KILLS").unwrap_or(if is_long() { KILLS_LONG } else { KILLS });
    let first = number("ESCAPEMENT_SEEDS_FROM").unwrap_or(1);
    let mut figures = Figures::new();
    let of = |figures: &Figures, name: &str| figures.get(name).copied().unwrap_or(0);
    let mut seed = first;
    while of(&figures, "kills") < n_kills {
        let left = n_kills - of(&figures, "kills");
        let report = Round::new(seed).await.play(left.min(KILLS_IN_A_ROUND)).await;
        for (name, n) in report.counts() {
            *figures.entry(name.to_owned()).or_default() += n;
        }
        assert!(
            report.is_clean(),
            "{}{}\nto repeat: ESCAPEMENT_SEEDS_FROM={seed} ESCAPEMENT_KILLS={n_kills} \
             cargo test -p escapement-tests --test crashes kills",
            report
                .violations
                .iter()
                .map(|violation| format!("{violation}\n"))
                .collect::<String>(),
            report.n_more
        );
        seed += 1;
    }
    println!("{} s: {figures:?}", began.elapsed().as_secs());
    let kills = of(&figures, "kills");
    let operations = of(&figures, "answers") + of(&figures, "lost answers") + of(&figures, "hand-outs");
    let faults = kills + of(&figures, "workers killed") + of(&figures, "stops");
    if let Some(path) = std::env::var_os("ESCAPEMENT_REPORT") {
        let report = format!("{{\"kills\":{kills},\"operations\":{operations},\"faults\":{faults}}}\n");
        std::fs::write(path, report).unwrap();
    }
    check_floors(&figures, kills);
}

/// A run in which nothing happened proves nothing. A short run may be all bad luck.
fn check_floors(figures: &Figures, kills: u64) {
    if kills < KILLS {
        return;
    }
    let floors_in_percent = [
        ("accepted", 200),
        ("results", 200),
        ("hand-outs", 100),
        ("entries", 2_000),
        ("lost answers", 50),
        ("kills with work in flight", 10),
    ];
    for (name, percent) in floors_in_percent {
        let n = figures.get(name).copied().unwrap_or(0);
        assert!(n * 100 >= kills * percent, "{n} {name} in {kills} kills");
    }
}

/// A store with everybody around it.
struct Round {
    world: World,
    witness: Arc<Witness>,
    address: SocketAddr,
    url: String,
    stock: Vec<WorkerSettings>,
    workers: Vec<Worker>,
    load: Load,
    dice: Dice,
}

impl Round {
    async fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut world = World::new()
            .flag("--max-running-executions", 8)
            .flag("--lease-ms", LEASE_MS)
            .flag("--heartbeat-interval-ms", LEASE_MS / 5);
        let witness = Witness::new();
        witness.life(Life::Began);
        let url = world.start_undisturbed().await.url;
        let address = url.trim_start_matches("http://").parse().unwrap();
        let directory = world.directory.path();
        let stock: Vec<_> = (1..=STOCK_WORKERS)
            .map(|n| WorkerSettings::new(&url, &format!("stock-{n}"), directory, directory))
            .collect();
        let workers = stock.iter().map(|settings| settings.start().unwrap()).collect();
        let load = Load::start(&witness, &url, &mut dice);
        Self {
            world,
            witness,
            address,
            url,
            stock,
            workers,
            load,
            dice,
        }
    }

    async fn play(mut self, n_kills: u64) -> Report {
        let mut left = n_kills;
        while left > 0 {
            self.trouble().await;
            self.let_load_pass().await;
            self.kill();
            left -= 1;
            // Once more, while it starts and recovers.
            while left > 0 && self.dice.percent(25) {
                self.witness.life(Life::Began);
                self.world.launch(&self.settings());
                let_pass(self.dice.ms(0, 60)).await;
                self.kill();
                self.count("kills during a start");
                left -= 1;
            }
            self.start_again().await;
        }
        self.settle().await;
        self.end().await
    }

    /// A moment, or until so many calls were answered, however fast the machine is today.
    async fn let_load_pass(&mut self) {
        if self.dice.percent(40) {
            let_pass(self.dice.ms(0, 30)).await;
            return;
        }
        let wanted = self.witness.n_answered.load(Ordering::Relaxed) + 10 + self.dice.roll(120);
        let witness = Arc::clone(&self.witness);
        let answered = async || (witness.n_answered.load(Ordering::Relaxed) >= wanted).then_some(());
        // Where nobody can be answered, the kill comes all the same.
        let _ = wait_for("answers", ANSWERS_LIMIT, answered).await;
    }

    /// Something that is not the kill itself and may come together with it.
    async fn trouble(&mut self) {
        match self.dice.roll(100) {
            0..20 => {
                self.world.process().signal(Signal::STOP).unwrap();
                let_pass(self.dice.ms(10, 200)).await;
                // Sometimes it is killed as it stands.
                if self.dice.percent(70) {
                    self.world.process().signal(Signal::CONT).unwrap();
                }
                self.count("stops");
            }
            20..40 => {
                let at = usize::try_from(self.dice.roll(STOCK_WORKERS)).unwrap();
                self.workers[at].process.kill().unwrap();
                self.workers[at] = self.stock[at].start().unwrap();
                self.count("workers killed");
            }
            _ => {}
        }
    }

    fn kill(&mut self) {
        if self.witness.n_running.load(Ordering::Relaxed) > 0 {
            self.count("kills with work in flight");
        }
        self.world.kill();
        self.witness.life(Life::Killed);
    }

    fn settings(&self) -> escapement_tests::OrchestratorSettings {
        self.world.settings().listen(self.address)
    }

    async fn start_again(&mut self) {
        let settings = self.settings();
        for _ in 0..STARTS_MAX {
            self.witness.life(Life::Began);
            if self.world.start_with(&settings).await.is_ok() {
                return;
            }
            // Somebody else may have the port for a moment: it is one that the system gives away.
            let code = self.world.ended().await.code();
            assert_eq!(code, Some(EXIT_UNAVAILABLE), "{}", self.world.stderr());
            self.witness.life(Life::Drained);
            let_pass(Duration::from_millis(20)).await;
        }
        panic!("the address stays taken:\n{}", self.world.stderr());
    }

    /// Lets everything run to its end, and asks once more about everything in every way.
    async fn settle(&mut self) {
        self.load.stop_callers().await;
        let caller = Caller::at(&self.url);
        let all_ended = async || {
            let listed = caller.list().await.ok()?;
            let is_settled = |execution: &escapement_wire::v1::Execution| execution.state() == State::Settled;
            listed.values().all(is_settled).then_some(())
        };
        wait_for("everything to settle", SETTLE_LIMIT, all_ended)
            .await
            .unwrap();
        assert!(self.witness.list(&caller).await);
        let known = self.witness.all_known().clone();
        let mut lookers = JoinSet::new();
        for part in known.chunks(known.len() / 4 + 1) {
            let (witness, caller, part) = (Arc::clone(&self.witness), caller.clone(), part.to_vec());
            lookers.spawn(async move {
                for (n, known) in part.into_iter().enumerate() {
                    let mut answered = witness.get(&caller, known.id).await;
                    answered &= match n % 3 {
                        0 => witness.audit(&caller, known.id).await,
                        1 => witness.watch(&caller, known.id, 1).await,
                        _ => witness.wait(&caller, known.id, 1_000).await,
                    };
                    assert!(answered, "an orchestrator that nobody disturbs answers");
                }
            });
        }
        while let Some(ended) = lookers.join_next().await {
            ended.expect("every question is answered");
        }
    }

    /// Stops in order, and lets the checker say what it found.
    async fn end(mut self) -> Report {
        self.load.stop_workers().await;
        self.world.ask_to_stop();
        let status = self.world.ended().await;
        assert!(status.success(), "{status}:\n{}", self.world.stderr());
        self.witness.life(Life::Drained);
        self.check_file();
        let mut checker = self.witness.take_checker();
        checker.all_must_be_settled();
        checker.starts_must_be_in_order();
        checker.count("accepted", self.witness.n_accepted.load(Ordering::Relaxed));
        checker.count("results", self.witness.n_results.load(Ordering::Relaxed));
        checker.finish(&[])
    }

    /// What SQLite itself says of the file.
    fn check_file(&self) {
        let file = rusqlite::Connection::open(self.world.file("store.db")).unwrap();
        let verdict: String = file
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok");
    }

    fn count(&self, what: &'static str) {
        self.witness.checker().count(what, 1);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

/// In a quick run, and where there is time.
const KILLS: u64 = 30;
const KILLS_LONG: u64 = 600;
const KILLS_IN_A_ROUND: u64 = 10;
const STOCK_WORKERS: u64 = 2;
/// What a killed worker had is lost only after its lease.
const LEASE_MS: u64 = 2_000;
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
const ANSWERS_LIMIT: Duration = Duration::from_secs(2);
const STARTS_MAX: usize = 100;
const EXIT_UNAVAILABLE: i32 = 69;
