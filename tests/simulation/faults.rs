//! What goes wrong, and what operators do. Every fault is one that the protocol promises to survive.

use crate::disk::End;
use crate::network::StreamId;
use crate::orchestrator::Call;
use crate::shares::Shares;
use crate::truth::ProcessKey;
use crate::world::{Happening, World};
use escapement_engine::{Input, WorkerSelector};
use escapement_model::InstanceId;

impl World {
    /// The next thing goes wrong, and the one after it is planned.
    pub(crate) fn next_fault(&mut self) {
        if !self.is_stormy || self.n_faults_left == 0 {
            return;
        }
        self.n_faults_left -= 1;
        // In a short storm each fault is of a kind of its own; in a long one few are such that all begins anew.
        let kind = if self.scenario.n_faults == u64::MAX {
            self.dice.roll(100)
        } else {
            *self.dice.pick(&KINDS)
        };
        let seat = self.dice.index(self.seats.len());
        match kind {
            0..=15 => self.break_one(),
            16..=27 => self.silence(seat),
            28..=32 => self.crash_worker(seat),
            33..=40 => self.stop_the_clock_of(seat),
            41..=44 => self.pause_orchestrator(),
            45..=46 => self.restart_orchestrator(),
            47..=50 => self.break_all(),
            51..=54 => self.drain_process(seat),
            55..=63 => self.change_levels(seat),
            64..=67 => self.operator_drains(seat),
            68..=72 => self.operator_declares_dead(seat),
            73..=82 => self.report_by_call(),
            83..=86 => self.move_wall_clock(),
            87..=88 => self.change_shares(),
            89..=91 => self.partition_a_caller(),
            92..=94 => self.disk_is_slow(),
            95..=97 => self.disk_is_full(),
            _ => self.commit_fails(),
        }
        let after_ms = self.dice.roll(self.scenario.fault_every_ms * 2);
        self.plan(after_ms, Happening::Fault);
    }

    pub(crate) fn note_fault(&mut self, what: &str, seat: Option<usize>) {
        self.tally().count(&format!("fault: {what}"));
        self.trace
            .note(self.now_ms, format_args!("FAULT {what} {seat:?}"));
    }

    fn break_one(&mut self) {
        let live = self.network.live();
        if live.is_empty() {
            return;
        }
        let id = *self.dice.pick(&live);
        self.note_fault("break", Some(self.network.streams[&id].seat));
        let now_ms = self.now_ms;
        self.network.break_stream(id, now_ms, &mut self.dice);
    }

    fn break_all(&mut self) {
        self.note_fault("mass disconnect", None);
        let now_ms = self.now_ms;
        for id in self.network.live() {
            self.network.break_stream(id, now_ms, &mut self.dice);
        }
        if self.dice.percent(50) {
            let until_ms = now_ms + self.dice.between(3_000, 25_000);
            for seat in 0..self.seats.len() {
                self.stall(seat, until_ms, true, true);
            }
        }
    }

    /// A black hole in one direction or both; what it held comes late, or is lost with its streams.
    fn silence(&mut self, seat: usize) {
        let ms = *self.dice.pick(&[100, 1_000, 3_000, 9_000, 12_000, 30_000]);
        let ms = self.dice.between(ms / 2, ms);
        let (up, down) = *self.dice.pick(&[(true, true), (true, false), (false, true)]);
        self.note_fault("black hole", Some(seat));
        self.stall(seat, self.now_ms + ms, up, down);
        if self.dice.percent(40) {
            for stream in self.streams_of(seat) {
                self.plan(ms, Happening::CutStream { stream });
            }
        }
    }

    fn stall(&mut self, seat: usize, until_ms: u64, up: bool, down: bool) {
        let place = &mut self.seats[seat];
        if up {
            place.up_stalled_until_ms = place.up_stalled_until_ms.max(until_ms);
        }
        if down {
            place.down_stalled_until_ms = place.down_stalled_until_ms.max(until_ms);
        }
        for stream in self
            .network
            .streams
            .values_mut()
            .filter(|stream| stream.seat == seat)
        {
            if up {
                stream.up.stall(until_ms);
            }
            if down {
                stream.down.stall(until_ms);
            }
        }
    }

    fn streams_of(&self, seat: usize) -> Vec<StreamId> {
        let of_seat = self
            .network
            .streams
            .iter()
            .filter(|(_, stream)| stream.seat == seat);
        of_seat.map(|(id, _)| *id).collect()
    }

    fn crash_worker(&mut self, seat: usize) {
        if self.seats[seat].process.is_none() {
            return;
        }
        self.note_fault("worker crash", Some(seat));
        if self.dice.percent(40) {
            // The machine is gone, and nobody says so.
            for id in self.streams_of(seat) {
                let stream = self.network.streams.get_mut(&id).expect("it is listed");
                stream.up.cut(true);
            }
        }
        self.end_process(seat);
        let after_ms = self.dice.between(10, 15_000);
        self.plan(after_ms, Happening::WorkerBoots { seat });
    }

    fn stop_the_clock_of(&mut self, seat: usize) {
        let Some(by) = self.seats[seat].key(seat) else {
            return;
        };
        self.note_fault("worker stands still", Some(seat));
        let ms = *self.dice.pick(&[200, 2_000, 9_000, 13_000, 30_000]);
        let until_ms = self.now_ms + self.dice.between(ms / 2, ms);
        self.seats[seat].frozen_until_ms = self.seats[seat].frozen_until_ms.max(until_ms);
        self.truth.stood_still(by, self.seats[seat].frozen_until_ms);
    }

    fn pause_orchestrator(&mut self) {
        if self.scenario.is_steady {
            return;
        }
        self.note_fault("orchestrator stands still", None);
        let ms = *self.dice.pick(&[50, 1_000, 5_000, 15_000]);
        let until_ms = self.now_ms + self.dice.between(ms / 2, ms);
        if let Some(process) = &mut self.orchestrator {
            process.frozen_until_ms = process.frozen_until_ms.max(until_ms);
        }
    }

    fn restart_orchestrator(&mut self) {
        let end = match self.dice.roll(3) {
            0 => End::Killed,
            1 => End::PowerCut,
            _ => return self.drain_orchestrator(),
        };
        if self.orchestrator.is_none() {
            return;
        }
        let what = if end == End::Killed { "kill" } else { "power cut" };
        self.note_fault(what, None);
        if self.dice.percent(50) {
            self.storage.next_commit_ends = Some(end);
        } else {
            self.end_orchestrator(end);
        }
    }

    fn drain_orchestrator(&mut self) {
        let grace_ms = *self.dice.pick(&[0, 500, 5_000]);
        let Some(process) = &mut self.orchestrator else {
            return;
        };
        if !std::mem::replace(&mut process.is_draining, true) {
            process.happened(Input::Drain { grace_ms });
            self.note_fault("orchestrator drain", None);
        }
    }

    /// A deploy: the worker is asked to stop, and another process takes its place.
    pub(crate) fn drain_process(&mut self, seat: usize) {
        let now_ms = self.now_ms;
        let Some(by) = self.seats[seat].key(seat) else {
            return;
        };
        if self.seats[seat].is_frozen(now_ms) {
            return;
        }
        let process = self.seats[seat].process.as_mut().expect("it has a key");
        if !std::mem::replace(&mut process.is_stopping, true) {
            self.note_fault("worker stops", Some(seat));
            self.truth.stops(by);
            self.with_machine(seat, |machine, clock_ms| machine.handle_stop(clock_ms));
        }
    }

    fn change_levels(&mut self, seat: usize) {
        let now_ms = self.now_ms;
        if self.seats[seat].process.is_none() || self.seats[seat].is_frozen(now_ms) {
            return;
        }
        self.note_fault("levels change", Some(seat));
        if self.dice.percent(70) {
            let level = u32::try_from(
                self.dice
                    .roll(u64::from(self.seats[seat].shape.max_in_flight) + 1),
            );
            self.set_level(seat, level.expect("it is small"));
        } else {
            let enabled = self.dice.percent(60);
            // Attempts of an action that only waits take other room once it is not offered: a wait is hard to judge then.
            let steady = self.scenario.is_steady;
            let actions = self.seats[seat].shape.actions.iter();
            let names: Vec<&str> = actions
                .filter(|(_, _, waits)| !(steady && *waits))
                .map(|(name, ..)| *name)
                .collect();
            let name = *self.dice.pick(&names);
            self.with_machine(seat, |machine, _| machine.set_actions_enabled(&[name], enabled));
        }
    }

    fn set_level(&mut self, seat: usize, level: u32) {
        if let Some(process) = &mut self.seats[seat].process {
            process.max_in_flight = level;
        }
        self.with_machine(seat, |machine, _| machine.set_capacity(level));
    }

    fn operator_drains(&mut self, seat: usize) {
        let Some(instance_id) = self.instance_of(seat) else {
            return;
        };
        let by_label = self.dice.percent(30);
        let worker = if by_label {
            WorkerSelector::WorkerId(self.seats[seat].shape.worker_id.as_str().into())
        } else {
            WorkerSelector::Instance(instance_id)
        };
        let Some(process) = &mut self.orchestrator else {
            return;
        };
        process.call(Call::Operate, |caller| Input::DrainWorker { caller, worker });
        self.note_fault("operator drains", Some(seat));
        // Somebody who drains a worker replaces it in time.
        let seats = 0..self.seats.len();
        let worker_id = self.seats[seat].shape.worker_id.clone();
        for other in seats.filter(|other| by_label || *other == seat) {
            if self.seats[other].shape.worker_id == worker_id {
                let after_ms = self.dice.between(1_000, 20_000);
                self.plan(after_ms, Happening::WorkerStops { seat: other });
            }
        }
    }

    fn operator_declares_dead(&mut self, seat: usize) {
        let Some(instance_id) = self.instance_of(seat) else {
            return;
        };
        let by = self.seats[seat].key(seat).expect("it has an instance id");
        let Some(process) = &mut self.orchestrator else {
            return;
        };
        let frozen_until_ms = process.frozen_until_ms;
        process.call(Call::Operate, |caller| Input::DeclareWorkerDead {
            caller,
            instance_id,
        });
        self.note_fault("operator declares dead", Some(seat));
        let at_ms = self.now_ms.max(frozen_until_ms);
        self.truth.declared_dead(at_ms, by);
    }

    fn instance_of(&self, seat: usize) -> Option<InstanceId> {
        Some(self.seats[seat].process.as_ref()?.instance_id)
    }

    fn move_wall_clock(&mut self) {
        if !self.scenario.is_steady {
            self.note_fault("wall clock jumps", None);
            let ms = i64::try_from(self.dice.between(1, 7_200_000)).expect("it is small");
            self.wall_offset_ms += if self.dice.percent(50) { ms } else { -ms };
        }
    }

    /// Another policy.
    fn change_shares(&mut self) {
        let shares = Shares::of(&mut self.dice);
        if let Some(process) = &mut self.orchestrator {
            process.happened(shares.input());
        }
        self.storage.shares_change(shares);
        self.note_fault("other shares", None);
    }

    /// Nothing goes wrong any more, and what was wrong is mended; half-open streams remain what they are.
    pub(crate) fn heal(&mut self) {
        self.trace.note(self.now_ms, "everything is mended");
        self.is_stormy = false;
        let now_ms = self.now_ms;
        for stream in self.network.streams.values_mut() {
            stream.up.flow_again();
            stream.down.flow_again();
        }
        if let Some(process) = &mut self.orchestrator {
            process.frozen_until_ms = process.frozen_until_ms.min(now_ms);
        }
        for seat in 0..self.seats.len() {
            let place = &mut self.seats[seat];
            (place.up_stalled_until_ms, place.down_stalled_until_ms) = (0, 0);
            if let Some(process) = place.process.as_ref().filter(|_| place.frozen_until_ms > now_ms) {
                let by = ProcessKey {
                    seat,
                    process: process.number,
                };
                self.truth.stood_still(by, now_ms);
            }
            let place = &mut self.seats[seat];
            place.frozen_until_ms = place.frozen_until_ms.min(now_ms);
            self.set_level(seat, self.seats[seat].shape.max_in_flight);
            let names: Vec<&str> = self.seats[seat]
                .shape
                .actions
                .iter()
                .map(|(name, ..)| *name)
                .collect();
            self.with_machine(seat, |machine, _| machine.set_actions_enabled(&names, true));
        }
        self.heal_disk_and_callers();
        for _ in 0..self.dice.between(1, 3) {
            self.submit_plan(None);
        }
        for job in 0..self.jobs.len() {
            self.plan(0, Happening::GoOn { job });
        }
    }

    /// Workers that an operator drained are replaced.
    pub(crate) fn replace_drained(&mut self) {
        for seat in 0..self.seats.len() {
            if self.seats[seat]
                .process
                .as_ref()
                .is_some_and(|process| process.is_drained)
            {
                self.drain_process(seat);
            }
        }
    }
}

/// One of each kind, and more of those that only a restart makes up for.
const KINDS: [u64; 23] = [
    87, 0, 16, 28, 33, 41, 45, 45, 45, 47, 51, 55, 64, 68, 73, 83, 89, 92, 95, 98, 45, 95, 98,
];
