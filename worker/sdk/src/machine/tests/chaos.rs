//! Random orchestrators, handler tasks and networks, and clocks that jump. What must hold in every one of these worlds.

use super::stage::Stage;
use crate::StepError;
use crate::machine::OrchestratorId;
use crate::session::TaskEnd;
use crate::session::tests::spoken::{
    Dice, action, cancels, drain_started, heartbeat_ack, snapshot_request, success, token_bytes,
};
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::Hello;
use escapement_wire::worker::v1::session_error::Code;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 300;
const STEPS: usize = 300;
const PEERS: [&str; 4] = ["http://b:1", "http://c:1", "http://d:1", "http://a:1"];

#[test]
fn whatever_happens_tasks_start_once_capacity_holds_and_the_worker_ends() {
    let mut peers_met = 0;
    for seed in 1..=SEEDS {
        let mut chaos = Chaos::new(seed);
        for _ in 0..STEPS {
            chaos.step();
            chaos.check();
        }
        peers_met += usize::from(chaos.met_peers);
        chaos.settle();
    }
    assert!(peers_met > 200, "most worlds have peers: {peers_met}");
}

struct Chaos {
    stage: Stage,
    seed: u64,
    dice: Dice,
    next_name: u8,
    /// Handler tasks that run, with their actions.
    tasks: BTreeMap<AttemptToken, String>,
    ever: BTreeSet<AttemptToken>,
    met_peers: bool,
    /// Number of restarts of the configured orchestrator.
    n_boots: u8,
    /// The clock jumped, and no timer has fired since.
    is_late: bool,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let hello = Hello {
            max_in_flight: 2,
            actions: vec![
                action("work", 0, false),
                action("single", 1, false),
                action("wait", 3, true),
            ],
            ..Hello::default()
        };
        Self {
            stage: Stage::of(hello),
            seed,
            dice: Dice(seed),
            next_name: 0,
            tasks: BTreeMap::new(),
            ever: BTreeSet::new(),
            met_peers: false,
            n_boots: 0,
            is_late: false,
        }
    }

    fn step(&mut self) {
        let ids: Vec<OrchestratorId> = self.stage.machine.orchestrators().collect();
        let id = ids[self.below(ids.len())];
        self.met_peers |= ids.len() > 2;
        match self.below(14) {
            0..=3 if self.stage.is_greeting(id) => {
                // Each has a name of one letter, and its own process, which ends now and then.
                let name = self.stage.machine.address(id).unwrap().as_bytes()[7];
                self.n_boots += u8::from(self.below(40) == 0 && self.n_boots < 9);
                let boot = name + self.n_boots * 10;
                let peers = self.some_peers();
                self.stage.welcome(id, boot, &peers);
            }
            0..=3 if self.stage.is_welcomed(id) && self.next_name < 250 => {
                self.next_name += 1;
                let action = ["work", "single", "wait", "missing"][self.below(4)];
                let timeout_ms = i64::try_from(self.below(20_000)).unwrap();
                self.stage.assign_action(id, self.next_name, action, timeout_ms);
            }
            4 | 5 if self.stage.is_welcomed(id) => {
                let name = u8::try_from(self.below(usize::from(self.next_name) + 1)).unwrap();
                match self.below(4) {
                    0 => {
                        let grace_ms = i64::try_from(self.below(2_000)).unwrap();
                        self.stage.say(id, cancels([token_bytes(name)], grace_ms));
                    }
                    _ => self.stage.acknowledge(id, name),
                }
            }
            6 if self.stage.is_welcomed(id) && self.below(3) == 0 => {
                let peers = self.some_peers();
                self.stage.say(id, heartbeat_ack(0, &peers));
            }
            7 if self.stage.is_welcomed(id) => {
                let message = [drain_started(), snapshot_request(1)][self.below(2)].clone();
                self.stage.say(id, message);
            }
            8 if self.stage.is_open(id) && self.below(3) == 0 => self.stage.disconnect(id),
            9 if self.stage.is_open(id) && id != OrchestratorId::CONFIGURED && self.below(4) == 0 => {
                self.stage.refuse(id, Code::Unauthorized);
            }
            10 => {
                let level = u32::try_from(self.below(3)).unwrap();
                self.stage.machine.set_capacity(level);
                let enabled = self.below(4) > 0;
                self.stage.machine.set_actions_enabled(&["single"], enabled);
                self.stage.pass(0);
            }
            11 | 12 => self.end_a_task(),
            13 if self.below(20) == 0 => match self.below(2) {
                0 => {
                    self.stage.now_ms += u64::try_from(self.below(30_000)).unwrap();
                    self.is_late = true;
                }
                _ => self.stage.acknowledges_heartbeats ^= true,
            },
            _ => {
                let ms = self.below(900);
                self.stage.pass(u64::try_from(ms).unwrap());
                self.is_late = false;
            }
        }
    }

    fn some_peers(&mut self) -> Vec<&'static str> {
        let chosen = self.below(16);
        let is_chosen = |&(index, _): &(usize, &&str)| chosen & (1 << index) != 0;
        PEERS
            .iter()
            .enumerate()
            .filter(is_chosen)
            .map(|(_, peer)| *peer)
            .collect()
    }

    fn end_a_task(&mut self) {
        let Some((token, _)) = self.tasks.pop_first() else {
            return;
        };
        let end = match self.below(3) {
            0 => success(),
            1 => TaskEnd::Failure(StepError::new("BUSY", "later")),
            _ => TaskEnd::Aborted,
        };
        self.stage.task_ends(token.as_bytes()[0], end);
    }

    fn check(&mut self) {
        let seed = self.seed;
        for job in std::mem::take(&mut self.stage.started) {
            assert!(
                self.ever.insert(job.token),
                "seed {seed}: {:?} was started twice",
                job.token
            );
            self.tasks.insert(job.token, job.assignment.action);
        }
        let n_ordinary = self.tasks.values().filter(|action| *action != "wait").count();
        let n_single = self.tasks.values().filter(|action| *action == "single").count();
        assert!(
            n_ordinary <= 2 && n_single <= 1,
            "seed {seed}: over the capacity of all sessions, or of an action: {:?}",
            self.tasks
        );
        assert_eq!(self.stage.machine.tasks(), self.tasks.len(), "seed {seed}");
        assert!(
            self.stage.end.is_none(),
            "seed {seed}: it ends at its own stop only: {:?}",
            self.stage.end
        );
        let addresses: Vec<&str> = self
            .stage
            .machine
            .orchestrators()
            .map(|id| self.stage.machine.address(id).unwrap())
            .collect();
        let different: BTreeSet<&&str> = addresses.iter().collect();
        assert_eq!(
            different.len(),
            addresses.len(),
            "seed {seed}: one session for each: {addresses:?}"
        );
        let wake_ms = self.stage.machine.poll_timeout();
        assert!(
            self.is_late || wake_ms.is_none_or(|wake_ms| wake_ms > self.stage.now_ms),
            "seed {seed}: not in the past"
        );
    }

    /// Stops the worker while no orchestrator answers.
    fn settle(&mut self) {
        while !self.tasks.is_empty() {
            self.end_a_task();
        }
        self.stage.stop();
        self.stage.pass(60_000);
        assert!(self.stage.end.is_some(), "seed {}", self.seed);
        assert_eq!(self.stage.machine.orchestrators().count(), 0);
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.dice.roll(bound as u64)).unwrap()
    }
}
