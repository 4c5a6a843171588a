//! Which execution starts and which step goes where, until nothing more can be done now.

use super::Engine;

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
        // The process is about to exit, and the next one would only find a started attempt that no execution waits for.
        if self.drain.has_ended() {
            return false;
        }
        let mut was_any = false;
        let mut pass = self.fleet.begin_pass();
        while let Some(chosen) = self.fleet.choose(&mut pass) {
            was_any = true;
            let key = chosen.execution();
            if self.apply_input(key, chosen.assigned()).is_ok() {
                let work = self.executions.work(key, chosen.step(), &self.turn);
                self.fleet.assign(chosen, work, &self.turn);
            }
        }
        was_any
    }

    fn settle_not_found(&mut self) {
        while let Some((key, step, input)) = self.fleet.pop_not_found() {
            let Some(action) = self.executions.action_of(key, step) else {
                continue;
            };
            self.fleet.note_not_found(action, &mut self.turn);
            // A limit that ran out meanwhile has ended the attempt already.
            let _already_over = self.apply_input(key, input);
        }
    }
}
