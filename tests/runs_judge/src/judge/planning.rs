//! Generations of a planner, and what a run does without.

use super::Desk;
use super::book::Book;
use crate::journal::{Called, Event};
use crate::wire::Value;

impl Book {
    pub(super) fn take_of_planning(&mut self, event: Event, desk: &mut Desk<'_>) {
        match event {
            Event::GenerationStarted(generation) => {
                desk.count("generations");
                let before = self.generations.keys().last().copied().unwrap_or(0);
                if self.planning.is_some() || generation != before + 1 {
                    desk.finds("RI9", &format!("generation {generation} follows {before}"));
                }
                // RI8
                if generation > self.spec.max_generations {
                    let most = self.spec.max_generations;
                    desk.finds("RI8", &format!("generation {generation} of {most}"));
                }
                self.planning = Some(generation);
                self.generations.entry(generation).or_default();
            }
            Event::GenerationEnded { generation, accepted } => {
                if self.planning.take() != Some(generation) {
                    desk.finds(
                        "RI3",
                        &format!("generation {generation} ends and is not under way"),
                    );
                }
                desk.count(if accepted {
                    "plans accepted"
                } else {
                    "plans refused"
                });
            }
            Event::Replanned {
                disabled,
                substitutes,
                falls_back,
            } => {
                desk.count(match (substitutes, falls_back) {
                    (true, _) => "substitutions",
                    (_, true) => "fallbacks that are called",
                    (false, false) => "replans",
                });
                // RI8
                if falls_back && self.fell_back {
                    desk.finds("RI8", "a fallback is called twice");
                }
                self.fell_back |= falls_back;
                self.n_substitutions += u32::from(substitutes);
                self.artifacts.verifies = false;
                self.substitutes = substitutes;
                // RI8
                if self.n_substitutions > self.spec.max_substitutions {
                    desk.finds("RI8", &format!("{} substitutions", self.n_substitutions));
                }
                self.disabled.extend(disabled);
            }
            _ => unreachable!("{event:?} is not about planning"),
        }
    }

    // RI12
    /// What the run does without is never less than before, and no plan of its planner calls it.
    pub(super) fn check_revision(
        &self,
        document: &Value,
        generation: u32,
        disabled: &[String],
        desk: &mut Desk<'_>,
    ) {
        if generation == 0 {
            return;
        }
        if let Some(lost) = self.disabled.iter().find(|action| !disabled.contains(action)) {
            desk.finds("RI12", &format!("{lost} is not disabled any more"));
        }
        let mut called = Vec::new();
        names_of_tools(document, &mut called);
        if let Some(again) = called.iter().find(|action| self.disabled.contains(**action)) {
            desk.finds(
                "RI12",
                &format!("generation {generation} calls {again}, which is disabled"),
            );
        }
    }

    // RI8
    /// An attempt of a generation, or a turn of a model, is one of those that there may be.
    pub(super) fn check_called(&mut self, called: &Called, desk: &mut Desk<'_>) {
        let unit = called.unit;
        if unit.is_generation() {
            if called.attempt > ATTEMPTS_MAX {
                desk.finds(
                    "RI8",
                    &format!("{unit:?} is asked for the {}th time", called.attempt),
                );
            }
            return;
        }
        self.check_bounds(called, desk);
        self.check_turn(called, desk);
    }
}

/// The names of tools anywhere in a document.
fn names_of_tools<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) => {
            found.extend(value.text("tool_name"));
            entries.values().for_each(|value| names_of_tools(value, found));
        }
        Value::List(items) => items.iter().for_each(|item| names_of_tools(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

/// Attempts of one generation.
const ATTEMPTS_MAX: u32 = 4;
