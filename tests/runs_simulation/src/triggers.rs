//! Triggers: schedules that are looked at in time, late, or after the process was away, and events that are told again and again.
//! Decides nothing about a firing.

use crate::plans;
use crate::process::Process;
use crate::specs;
use crate::world::{Happening, World};
use escapement_model::RunId;
use escapement_run::plan;
use escapement_run::spec::Spec;
use escapement_runs::NewRun;
use escapement_runs_api::turns;
use escapement_runs_host::Create;
use escapement_runs_judge::{Overlap, Rule, Told};
use escapement_store::runs::{ClientRequest, DefinitionKind};
use escapement_triggers::Cause;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use std::sync::Arc;

/// A trigger that somebody wants.
#[derive(Debug)]
pub(crate) struct Trigger {
    id: String,
    rule: Rule,
    /// Somebody was told that it is there.
    is_saved: bool,
}

impl World {
    /// Draws the triggers of a simulation: in most there are none.
    pub(crate) fn draw_triggers(&mut self) {
        if !self.dice.percent(40) {
            return;
        }
        for number in 0..self.dice.between(1, 3) {
            let every_min = *self.dice.pick(&[0, 1, 1, 2]);
            let overlap = *self.dice.pick(&[Overlap::Skip, Overlap::Queue, Overlap::Allow]);
            let n_caught_up = *self.dice.pick(&[None, Some(0), Some(2)]);
            let rule = Rule {
                every_ms: every_min * MINUTE_MS,
                from: 0,
                overlap,
                n_caught_up,
            };
            let id = format!("trigger {number}");
            let is_saved = false;
            self.triggers.push(Trigger { id, rule, is_saved });
        }
        self.triggers_until_ms = self.dice.between(60_000, 500_000);
        self.plan(100, Happening::LooksAtTriggers);
        self.plan(300, Happening::Publishes);
    }

    /// True if all triggers have come to rest.
    pub(crate) fn triggers_rest(&self) -> bool {
        let has_looked = self.triggers_looked_in == self.boots;
        let is_late = self.now_ms > self.triggers_until_ms;
        self.triggers.is_empty() || (has_looked && is_late && !self.judge.has_firing_that_waits())
    }

    pub(crate) fn trigger_is_saved(&mut self, id: &str) {
        let mut triggers = self.triggers.iter_mut();
        if let Some(trigger) = triggers.find(|trigger| trigger.id == id) {
            trigger.is_saved = true;
        }
    }

    /// Looks at all triggers: late now and then.
    pub(crate) fn looks_at_triggers(&mut self) {
        let most_ms = *self.dice.pick(&[500, 5_000, 5_000, 200_000]);
        let after_ms = self.dice.between(100, most_ms);
        self.plan(after_ms, Happening::LooksAtTriggers);
        if self.process.is_none() {
            return;
        }
        let unsaved = (0..self.triggers.len()).filter(|at| !self.triggers[*at].is_saved);
        let unsaved: Vec<usize> = unsaved.collect();
        if !unsaved.is_empty() {
            return unsaved.into_iter().for_each(|at| self.saves_trigger(at));
        }
        let now_ms = self.now_ms;
        let looks_at_schedules = now_ms <= self.triggers_until_ms || self.triggers_looked_in != self.boots;
        if looks_at_schedules {
            let now = self.process().unix_ms(now_ms);
            self.judge.looks_at_schedules(now);
            self.triggers_looked_in = self.boots;
        }
        for at in 0..self.triggers.len() {
            let id = self.triggers[at].id.clone();
            let made = self.what_is_made();
            let process = self.process.as_mut().expect("it runs");
            let now = process.unix_ms(now_ms);
            if turns::go_on(&mut process.host, &id, made, now).is_err() {
                self.count("firings put off");
            }
            if looks_at_schedules {
                self.fires_what_is_due(&id);
            }
        }
    }

    fn saves_trigger(&mut self, at: usize) {
        let now_ms = self.now_ms;
        let trigger = &mut self.triggers[at];
        let process = self.process.as_mut().expect("it runs");
        let now = process.unix_ms(now_ms);
        let known = process.host.definition(DefinitionKind::Trigger, &trigger.id);
        if known.expect("the store reads").is_none() {
            trigger.rule.from = now;
            turns::save(&mut process.host, &trigger.id, trigger.asked(), now);
        }
        let (trigger, rule) = (trigger.id.clone(), trigger.rule.clone());
        process.tell(Told::Trigger { trigger, rule });
    }

    fn fires_what_is_due(&mut self, id: &str) {
        let now_ms = self.now_ms;
        let process = self.process.as_mut().expect("it runs");
        let now = process.unix_ms(now_ms);
        let due = turns::look_at_schedule(&mut process.host, id, now).expect("the store reads");
        for instant in due.firing {
            let made = self.what_is_made();
            let process = self.process.as_mut().expect("it runs");
            let fired = turns::fire_once(&mut process.host, id, Cause::Due(instant), instant, made, now);
            if fired.is_err() {
                return self.count("firings put off");
            }
        }
    }

    /// Somebody tells of an event, perhaps of one that was told of before.
    pub(crate) fn publishes(&mut self) {
        if self.is_stormy {
            let after_ms = self.dice.between(50, 6_000);
            self.plan(after_ms, Happening::Publishes);
        }
        let at = usize::try_from(self.dice.roll(self.triggers.len() as u64)).expect("there are few");
        let trigger = &self.triggers[at];
        if self.process.is_none() || !trigger.is_saved || trigger.rule.every_ms > 0 {
            return;
        }
        let (now_ms, id) = (self.now_ms, trigger.id.clone());
        let event = format!("event {}", self.dice.roll(6));
        let cause = Cause::Event {
            kind: "happened".to_owned(),
            id: event.clone(),
        };
        let made = self.what_is_made();
        let process = self.process.as_mut().expect("it runs");
        let now = process.unix_ms(now_ms);
        match turns::fire_once(&mut process.host, &id, cause, now, made, now) {
            Ok(fired) => {
                assert!(fired.is_some(), "the trigger is there");
                process.tell(Told::Fired { trigger: id, event });
            }
            Err(_) => self.count("firings put off"),
        }
    }

    /// The run of a firing.
    fn what_is_made(&mut self) -> impl FnOnce(RunId, ClientRequest) -> Create + use<> {
        let document = match self.dice.percent(60) {
            true => plans::errand(),
            false => self.child_plan.clone(),
        };
        let plan = Arc::new(plan::read(&document).expect("it was read before"));
        let spec = Spec {
            request_id: "firing".to_owned(),
            ..specs::child(&mut self.dice)
        };
        move |run_id, request| Create {
            run: NewRun {
                run_id,
                spec,
                profiles: specs::profiles(&plan),
                plan,
            },
            request: Some(request),
            saved_plan: None,
        }
    }
}

impl Trigger {
    /// As a caller asks for it, with everything filled in.
    fn asked(&self) -> v1::Trigger {
        let rule = &self.rule;
        let overlap = match rule.overlap {
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
            Overlap::Allow => "allow",
        };
        let config = match rule.every_ms {
            0 => Config::Event(v1::EventFilter {
                r#type: "happened".to_owned(),
                ..v1::EventFilter::default()
            }),
            every_ms => Config::Schedule(v1::Schedule {
                cron: format!("*/{} * * * *", every_ms / MINUTE_MS),
                catch_up: match rule.n_caught_up {
                    None => "latest",
                    Some(0) => "skip",
                    Some(_) => "all",
                }
                .to_owned(),
                catch_up_max: rule.n_caught_up.map(u32::cast_signed),
                ..v1::Schedule::default()
            }),
        };
        v1::Trigger {
            name: self.id.clone(),
            enabled: Some(true),
            overlap: overlap.to_owned(),
            user_id: specs::USER.to_owned(),
            config: Some(config),
            ..v1::Trigger::default()
        }
    }
}

impl Process {
    /// The firings that are durable, each with its id.
    pub(crate) fn firings(&self) -> Vec<(String, Vec<u8>)> {
        let page = self
            .reader
            .definitions(DefinitionKind::Firing, None, None, FIRINGS_MAX);
        let page = page.expect("the store reads");
        assert!(!page.has_more, "there are few");
        let firings = page.definitions.into_iter();
        firings
            .map(|firing| (firing.name, firing.record.to_vec()))
            .collect()
    }
}

const MINUTE_MS: i64 = 60_000;
/// Firings of a simulation.
const FIRINGS_MAX: usize = 1_000;
