//! Who starts and which step goes where, until nothing more can be done now.

use super::Engine;
use crate::fleet::Work;

impl Engine {
    /// Admits and hands out until nothing more can be done now.
    pub(super) fn dispatch(&mut self) {
        // A hand-out may fire a limit that was due, and so settle, admit or make ready something else.
        loop {
            self.settle_not_found();
            self.admit();
            if !self.hand_out() && !self.fleet.has_not_found() {
                break;
            }
        }
        self.fleet.reindex_all();
    }

    /// Hands out what can be handed out; returns true if anything was.
    fn hand_out(&mut self) -> bool {
        // The process is about to exit, and the next one would only find a started attempt that nobody waits for.
        if self.drain.has_ended() {
            return false;
        }
        let mut was_any = false;
        let mut pass = self.fleet.begin_pass();
        while let Some(chosen) = self.fleet.choose(&mut pass) {
            was_any = true;
            let key = chosen.execution();
            if self.apply_input(key, chosen.assigned()).is_ok() {
                let live = self.live.at(key);
                let work = Work {
                    accept: live
                        .accept()
                        .expect("steps wait for workers once the accept is durable"),
                    execution_id: live.execution_id,
                    request: live.request.clone(),
                    timeout_ms: live
                        .execution
                        .attempt_time_left_ms(chosen.step(), self.turn.now()),
                };
                self.fleet.assign(chosen, work, &self.turn);
            }
        }
        was_any
    }

    fn settle_not_found(&mut self) {
        while let Some((key, step, input)) = self.fleet.pop_not_found() {
            let Some(live) = self.live.find_mut(key) else {
                continue;
            };
            let action = live.request.plan().step(step).action();
            self.fleet.note_not_found(action, &mut self.turn);
            // A limit that ran out meanwhile has ended the attempt already.
            let _already_over = self.apply_input(key, input);
        }
    }
}
