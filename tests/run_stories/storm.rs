//! Two hundred runs with effects in a storm of faults. The process is killed twelve times, its wall clock jumps, its disk is
//! full for seconds, and it is suspended. Each effect happens once, people answer doubts about effects alone, and no limit
//! ends a run.
//!
//! `ESCAPEMENT_SEEDS_FROM` is the seed of the faults. A kill follows a count of ledger lines and no clock.

use crate::plan_words::{call, document, text, unattended, with};
use crate::world::World;
use escapement_tests::clock_layer::WallClock;
use escapement_tests::fault_layer::FaultLayer;
use escapement_tests::{
    Dice, OrchestratorSettings, PrivateDirectory, Worker, WorkerSettings, let_pass, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

const RUNS: usize = 200;
const KILLS: usize = 12;
/// Number of runs with a call in flight while the process is suspended, or its disk is full.
const HELD: usize = 3;
/// Watchdog of these runs: longer than their start takes, shorter than the stall.
const HELD_MS: u64 = 5_000;
const STANDS_STILL: Duration = Duration::from_millis(6_000);
/// Longest life of the process.
const PATIENCE: Duration = Duration::from_secs(90);
const HOUR_S: i64 = 3_600;
const YEARS_S: i64 = 10 * 365 * 24 * HOUR_S;

/// Fault in a life of the process, in addition to its end.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The wall clock jumps by so many seconds.
    Clock {
        off_s: i64,
        for_a_while: bool,
    },
    Suspended,
    FullDisk,
}

const TROUBLES: [Trouble; 5] = [
    Trouble::Clock {
        off_s: YEARS_S,
        for_a_while: true,
    },
    Trouble::Clock {
        off_s: HOUR_S,
        for_a_while: false,
    },
    Trouble::Clock {
        off_s: -HOUR_S,
        for_a_while: false,
    },
    Trouble::Suspended,
    Trouble::FullDisk,
];

/// The clock and the disk of the process.
struct Machine {
    clock: WallClock,
    layer: FaultLayer,
    disk: PathBuf,
    _directory: PrivateDirectory,
}

impl Machine {
    fn new() -> Self {
        let directory = PrivateDirectory::new("storm").unwrap();
        let disk = directory.join("disk");
        std::fs::create_dir(&disk).unwrap();
        Self {
            clock: WallClock::new(directory.path()).unwrap(),
            layer: FaultLayer::new(&directory.join("control"), &disk).unwrap(),
            disk,
            _directory: directory,
        }
    }

    fn under(&self, settings: OrchestratorSettings) -> OrchestratorSettings {
        let of_clock = self.clock.variables();
        let of_clock = of_clock.map(|(name, value)| (name, value.display().to_string()));
        let mut variables = BTreeMap::new();
        for (name, value) in of_clock.into_iter().chain(self.layer.variables()) {
            // Both preload a library.
            let known = variables.entry(name).or_insert_with(String::new);
            *known = format!("{known} {value}").trim().to_owned();
        }
        let settings = settings.at(&self.disk);
        variables
            .into_iter()
            .fold(settings, |settings, (name, value)| settings.variable(name, value))
    }
}

/// Run of a caller.
#[derive(Clone, Debug)]
struct Wanted {
    request: Value,
    /// Id of the run, once the caller has it.
    run_id: Option<String>,
}

impl Wanted {
    fn new(name: &str, steps: Value, limits: Value) -> Self {
        let request = json!({ "document": document(steps), "limits": limits, "request_id": name });
        Self {
            request: unattended(request),
            run_id: None,
        }
    }

    /// Creates a run of a random shape. Calls of some shapes outlive the process.
    fn random(number: usize, life: usize, dice: &mut Dice) -> Self {
        let gated = json!({ "gate": gate_of(life), "answer": paid() });
        let pays = |payload| call("pays", "script.effect", payload);
        let books = |payload| call("books", "script.idempotent", payload);
        let looks = |payload| call("looks", "script.pure", payload);
        let answers = || json!({ "answer": paid() });
        let steps = match dice.roll(9) {
            0 | 8 => json!([pays(gated), looks(json!({}))]),
            1 => json!([books(gated), pays(answers())]),
            2 => json!([
                looks(gated),
                pays(answers()),
                call("sees", "script.world", json!({}))
            ]),
            3 => {
                let item = json!({ "tool_name": "script.effect", "tool_args": answers() });
                let config = json!({ "steps": [item, item, item], "batch_size": 2 });
                json!([{ "key": "items", "type": "parallel", "config": config }, books(answers())])
            }
            4 => {
                let flaky = books(json!({ "each": [{ "fail": "SHAKY" }, answers()] }));
                let retry = json!({ "retry": { "max_retries": 1, "backoff_ms": 300 } });
                json!([with(flaky, retry), pays(answers())])
            }
            5 => {
                let keeps = json!({ "path": format!("kept {number}"), "content": number.to_string() });
                json!([
                    pays(answers()),
                    call("keeps", "file.write", keeps),
                    call("says", "echo", json!({}))
                ])
            }
            _ => json!([looks(json!({})), pays(answers()), books(answers())]),
        };
        let limits = json!({ "watchdog_ms": 30_000, "run_ms": 120_000 });
        Self::new(&format!("run {number}"), steps, limits)
    }

    /// Creates a run whose call is in flight until the gate opens.
    fn held(name: &str, gate: &str) -> Self {
        let waits = call("waits", "script.pure", json!({ "gate": gate }));
        let pays = call("pays", "script.effect", json!({ "answer": paid() }));
        Self::new(name, json!([waits, pays]), json!({ "watchdog_ms": HELD_MS }))
    }

    /// Returns every unit that calls an action: action, step, index.
    fn units(&self) -> Vec<(String, String, i64)> {
        let steps = self.request["document"]["steps"].as_array().unwrap();
        let units = steps.iter().flat_map(|step| {
            let config = &step["config"];
            let calls = config["steps"].as_array().cloned();
            let calls = calls.unwrap_or_else(|| vec![config.clone()]);
            let units = (0..).zip(calls);
            units.map(|(index, call)| (text(&call["tool_name"]), text(&step["key"]), index))
        });
        units.collect()
    }
}

#[allow(clippy::print_stdout, reason = "the test that fails shows it")]
fn say(line: &str) {
    println!("{line}");
}

fn paid() -> Value {
    json!({ "paid": true })
}

fn gate_of(life: usize) -> String {
    format!("life {life}")
}

/// Prints the command that repeats a failed storm.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let command = "cargo test -p escapement-tests --test run_stories storm";
            say(&format!("again: ESCAPEMENT_SEEDS_FROM={} {command}", self.0));
        }
    }
}

struct Storm {
    machine: Machine,
    world: World,
    stock: WorkerSettings,
    worker: Worker,
    dice: Dice,
    /// Every run by its name.
    wanted: Mutex<BTreeMap<String, Wanted>>,
    /// Executions of answered questions, by the ids of the questions.
    asked: Mutex<BTreeMap<String, String>>,
}

impl Storm {
    async fn begin(seed: u64) -> Self {
        let machine = Machine::new();
        let world = World::start_with(|settings| machine.under(settings)).await;
        let directory = world.directory.path();
        let stock = WorkerSettings::new(&world.orchestrator.url(), "stock", directory, directory);
        let worker = stock.connect().await.unwrap();
        Self {
            machine,
            world,
            stock,
            worker,
            dice: Dice::new(seed),
            wanted: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    fn wants(&self, wanted: Wanted) {
        let name = text(&wanted.request["request_id"]);
        self.wanted.lock().unwrap().insert(name, wanted);
    }

    fn all(&self) -> Vec<Wanted> {
        self.wanted.lock().unwrap().values().cloned().collect()
    }

    /// Creates a part of the runs and waits for the last ledger line of this life.
    async fn live(&mut self, life: usize, trouble: Option<Trouble>) {
        let of_life = life * RUNS / (KILLS + 1)..(life + 1) * RUNS / (KILLS + 1);
        let most = of_life.len();
        for number in of_life {
            let wanted = Wanted::random(number, life, &mut self.dice);
            self.wants(wanted);
        }
        let before = self.world.calls().len();
        let last = before + self.dice.between(6, most as u64) as usize;
        say(&format!("life {life}: {trouble:?}, ends with line {last}"));
        let course = async {
            self.lines(before + 2).await;
            if let Some(trouble) = trouble {
                self.suffers(trouble, life).await;
            }
            self.lines(last).await;
        };
        tokio::select! {
            biased; // The course ends the life.
            () = course => {}
            () = self.asks_until(async || false) => unreachable!(),
        }
    }

    /// Kills the process, in some lives once more while it starts, and restarts it.
    async fn dies(&mut self, life: usize) {
        self.world.kill();
        self.worker.process.kill().unwrap();
        self.world.shared.open(&gate_of(life));
        if self.dice.percent(25) {
            self.world.worker_goes();
            self.world.runs_start().await;
            self.world.kill();
            self.world.starts().await;
            self.world.worker_comes().await;
        } else {
            self.world.starts().await;
        }
        self.worker = self.stock.start().unwrap();
    }

    async fn lines(&self, count: usize) {
        let are_there = async || (self.world.calls().len() >= count).then_some(());
        let what = format!("{count} lines of the ledger");
        wait_for(&what, PATIENCE, are_there).await.unwrap();
    }

    async fn suffers(&self, trouble: Trouble, life: usize) {
        match trouble {
            Trouble::Clock { off_s, for_a_while } => {
                self.machine.clock.set(off_s).unwrap();
                let n_calls = self.world.calls().len();
                self.lines(n_calls + 3).await;
                if for_a_while {
                    self.machine.clock.set(0).unwrap();
                }
            }
            Trouble::Suspended => {
                let held = self.holds(life).await;
                self.signals(Signal::STOP);
                let_pass(STANDS_STILL).await;
                self.signals(Signal::CONT);
                self.lets_go(life, held).await;
            }
            Trouble::FullDisk => {
                let held = self.holds(life).await;
                self.machine.layer.set_full(true).unwrap();
                let_pass(STANDS_STILL).await;
                self.machine.layer.set_full(false).unwrap();
                self.lets_go(life, held).await;
            }
        }
    }

    fn signals(&self, signal: Signal) {
        let id = self.world.orchestrator.process.id();
        let id = Pid::from_raw(id.cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Creates runs and waits until their calls are in flight.
    async fn holds(&self, life: usize) -> Vec<String> {
        let mut held = Vec::new();
        for number in 0..HELD {
            let mut wanted = Wanted::held(&format!("held {life} {number}"), &held_at(life));
            let run_id = self.world.create(wanted.request.clone()).await;
            wanted.run_id = Some(run_id.clone());
            self.wants(wanted);
            held.push(run_id);
        }
        for run_id in &held {
            self.world.until_calls(run_id, 1).await;
        }
        held
    }

    async fn lets_go(&self, life: usize, held: Vec<String>) {
        self.world.shared.open(&held_at(life));
        for run_id in held {
            assert_eq!(self.world.ended(&run_id).await["state"], "completed");
        }
    }

    /// Repeats requests of callers until each has its run, and answers questions of people.
    async fn asks_until(&self, is_over: impl AsyncFn() -> bool) {
        let asks = async || {
            for wanted in self.all().into_iter().filter(|wanted| wanted.run_id.is_none()) {
                let created = self
                    .world
                    .try_call("RunService/CreateRun", wanted.request.clone());
                if let Ok(created) = created.await {
                    let run_id = Some(text(&created["run"]["run_id"]));
                    self.wants(Wanted { run_id, ..wanted });
                }
            }
            self.answers().await;
            is_over().await.then_some(())
        };
        wait_for("an end", PATIENCE, asks).await.unwrap();
    }

    /// Answers by the ledger.
    async fn answers(&self) {
        let page = json!({ "page_size": 200 });
        let Ok(open) = self.world.try_call("InboxService/ListInputRequests", page).await else {
            return;
        };
        for request in open["input_requests"].as_array().unwrap() {
            assert_eq!(
                (&request["kind"], &request["action"]),
                (&json!("ambiguous_effect"), &json!("script.effect")),
                "{request:#}"
            );
            let execution = text(&request["execution_id"]);
            let calls = self.world.calls();
            let happened = calls.iter().any(|call| call["execution"] == execution.as_str());
            let effect = match happened {
                true => json!({ "happened": { "output": paid() } }),
                false => json!({ "did_not": {} }),
            };
            // If this fails, the next round answers the question again, or it is closed.
            let _ = self.world.respond(request, json!({ "effect": effect })).await;
            let id = text(&request["input_request_id"]);
            self.asked.lock().unwrap().insert(id, execution);
        }
    }

    async fn have_all_ended(&self) -> bool {
        for wanted in self.all() {
            let Some(run_id) = wanted.run_id else {
                return false;
            };
            if self.world.get(&run_id).await["state"] != "completed" {
                return false;
            }
        }
        true
    }

    /// Checks that the ledger has each effect once, and each other call with its key.
    async fn judge(&self) {
        let mut lines: BTreeMap<(String, String, i64), Vec<Value>> = BTreeMap::new();
        for call in self.world.calls() {
            let unit = (
                text(&call["run_id"]),
                text(&call["step"]),
                call["index"].as_i64().unwrap(),
            );
            lines.entry(unit).or_default().push(call);
        }
        let mut n_effects = 0;
        for wanted in self.all() {
            let run_id = wanted.run_id.clone().unwrap();
            for (action, step, index) in wanted.units() {
                let calls = lines.remove(&(run_id.clone(), step, index)).unwrap_or_default();
                let keys: BTreeSet<String> = calls.iter().map(|call| text(&call["paid_as"])).collect();
                match &action[..] {
                    "file.write" => {
                        let kept = &wanted.request["document"]["steps"][1]["config"]["tool_args"];
                        let path = self.world.directory.join(text(&kept["path"]));
                        assert_eq!(std::fs::read_to_string(path).unwrap(), text(&kept["content"]));
                    }
                    "echo" => {}
                    "script.effect" => {
                        assert_eq!(calls.len(), 1, "{calls:#?}");
                        n_effects += 1;
                    }
                    _ => assert_eq!(keys.len(), 1, "{action}: {calls:#?}"),
                }
            }
        }
        assert!(lines.is_empty(), "nobody wanted these: {lines:#?}");
        self.judge_questions().await;
        let n_doubts = self.asked.lock().unwrap().len();
        say(&format!("{n_effects} effects, {n_doubts} of them in doubt"));
        assert!(
            n_effects >= RUNS,
            "a storm with {n_effects} effects proves nothing"
        );
        assert!(
            n_doubts >= KILLS / 2,
            "a storm with {n_doubts} doubts proves nothing"
        );
    }

    /// Checks that the runs asked no other question than the answered ones.
    async fn judge_questions(&self) {
        let mut n_asked = 0;
        for wanted in self.all() {
            let names = self.world.event_names(&wanted.run_id.unwrap()).await;
            let count = |name: &str| names.iter().filter(|known| *known == name).count();
            assert_eq!(
                count("approval_requested") + count("timeout_error"),
                0,
                "{names:?}"
            );
            n_asked += count("input_requested");
        }
        assert_eq!(n_asked, self.asked.lock().unwrap().len());
    }
}

fn held_at(life: usize) -> String {
    format!("held in life {life}")
}

// RUN-5.2, RUN-7.2, RUN-7.5, RUN-7.8, RUN-9.3, RUN-9.4, RUN-12.14
#[tokio::test(flavor = "multi_thread")]
async fn s10_effects_of_two_hundred_runs_happen_once_in_a_storm_of_faults() {
    let asked = std::env::var("ESCAPEMENT_SEEDS_FROM").ok();
    let seed = Seed(asked.map_or(1, |seed| seed.parse().unwrap()));
    let mut storm = Storm::begin(seed.0).await;
    let mut troubles = BTreeMap::new();
    for trouble in TROUBLES {
        let mut free: Vec<usize> = (0..KILLS).filter(|life| !troubles.contains_key(life)).collect();
        let at = storm.dice.index(free.len());
        troubles.insert(free.swap_remove(at), trouble);
    }
    for life in 0..KILLS {
        storm.live(life, troubles.get(&life).copied()).await;
        storm.dies(life).await;
    }
    storm.world.shared.open(&gate_of(KILLS));
    storm.live(KILLS, None).await;
    storm.asks_until(async || storm.have_all_ended().await).await;
    storm.judge().await;
    storm.worker.stop().await.unwrap();
    storm.world.close().await;
}
