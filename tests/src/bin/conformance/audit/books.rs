//! What heartbeats say of the attempts in flight, compared with what was said on the stream.
//! Where an attempt came or went within [`SLACK`] of a heartbeat, either answer is right.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use escapement_wire::worker::v1::Heartbeat;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use tokio::time::Instant;

use super::{Finding, find};
use crate::log::{Log, Said};
use crate::messages::hex;

/// What a heartbeat may say of one attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    In,
    Out,
    Either,
}

#[derive(Clone, Copy, Default)]
struct Times {
    /// The worker said that it has it.
    held: Option<Instant>,
    /// The worker gave it up, or might have.
    given_up: Option<Instant>,
    /// The kit released it.
    released: Option<Instant>,
    /// Handed out.
    assigned: Option<Instant>,
    /// Nothing can be said about it.
    vague: bool,
}

pub(super) fn judge(logs: &[Log], findings: &mut Vec<Finding>) {
    for log in logs {
        let times = times(log);
        for (at, heartbeat) in log.heartbeats() {
            let stands = times.iter().map(|(token, times)| (token, times.at(at)));
            if let Some((rule, text)) = compare(heartbeat, stands.collect()) {
                return find(findings, rule, text);
            }
        }
    }
}

fn times(log: &Log) -> BTreeMap<Bytes, Times> {
    let mut times: BTreeMap<Bytes, Times> = BTreeMap::new();
    let boot_seen = log.hello().map(|hello| &hello.boot_id_seen);
    for entry in &log.entries {
        let at = entry.at;
        match &entry.said {
            Said::Worker(Some(message)) => heard(&mut times, at, message),
            Said::Kit(Some(message)) => told(&mut times, at, message, boot_seen),
            Said::Worker(None) | Said::Kit(None) => {}
        }
    }
    times
}

fn heard(times: &mut BTreeMap<Bytes, Times>, at: Instant, message: &FromWorker) {
    match message {
        FromWorker::Hello(hello) => {
            for entry in &hello.in_flight {
                of(times, &entry.attempt_token).held.get_or_insert(at);
            }
        }
        FromWorker::AttemptAcks(acks) => {
            for token in &acks.started {
                of(times, token).held.get_or_insert(at);
            }
            let rejected = acks.rejected.iter().map(|item| &item.attempt_token);
            for token in acks.stopped.iter().chain(rejected) {
                of(times, token).given_up.get_or_insert(at);
            }
        }
        FromWorker::Outcomes(outcomes) => {
            for item in &outcomes.items {
                of(times, &item.attempt_token).held.get_or_insert(at);
            }
        }
        _ => {}
    }
}

/// `boot_seen` is what `Hello` says of the boot before.
fn told(times: &mut BTreeMap<Bytes, Times>, at: Instant, message: &ToWorker, boot_seen: Option<&Bytes>) {
    match message {
        ToWorker::Welcome(welcome) => {
            for item in welcome
                .verdicts
                .iter()
                .filter(|item| item.verdict() == Verdict::Stop)
            {
                of(times, &item.attempt_token).vague = true;
            }
            // A new boot wants nothing from before; else what has no verdict is kept.
            let rebooted = boot_seen.is_some_and(|boot_id| *boot_id != welcome.boot_id);
            for times in times.values_mut() {
                times.vague |= rebooted;
            }
        }
        ToWorker::Assignments(assignments) => {
            for item in &assignments.items {
                let times = of(times, &item.attempt_token);
                // A token that was used before, or that is none, is the check's own affair.
                times.vague |= times.assigned.is_some() || item.attempt_token.len() != 16;
                times.assigned = Some(at);
            }
        }
        ToWorker::OutcomeAcks(acks) => {
            for item in &acks.items {
                of(times, &item.attempt_token).released.get_or_insert(at);
            }
        }
        _ => {}
    }
}

fn of<'a>(times: &'a mut BTreeMap<Bytes, Times>, token: &Bytes) -> &'a mut Times {
    times.entry(token.clone()).or_default()
}

impl Times {
    fn at(&self, now: Instant) -> Stand {
        let long_before = |event: Option<Instant>| event.is_some_and(|at| at + SLACK < now);
        let long_after = |event: Option<Instant>| event.is_none_or(|at| at > now + SLACK);
        // What the kit does cannot be known before it is done.
        let not_yet = |event: Option<Instant>| event.is_none_or(|at| at > now);
        let gone = long_before(self.released) || long_before(self.given_up);
        let to_come = self.held.is_none_or(|at| at > now) && not_yet(self.assigned);
        if self.vague {
            Stand::Either
        } else if gone || to_come {
            Stand::Out
        } else if long_before(self.held) && not_yet(self.released) && long_after(self.given_up) {
            Stand::In
        } else {
            Stand::Either
        }
    }
}

fn compare(heartbeat: &Heartbeat, stands: Vec<(&Bytes, Stand)>) -> Option<(&'static str, String)> {
    let certain: Vec<&Bytes> = of_stand(&stands, Stand::In);
    let open: Vec<&Bytes> = of_stand(&stands, Stand::Either);
    let (min, n) = (certain.len(), heartbeat.in_flight as usize);
    let max = min + open.len();
    if n < min || n > max {
        let text = format!(
            "expected heartbeat {} to count {min} to {max} in flight, got {n}",
            heartbeat.n
        );
        return Some(("heartbeats_count_in_flight", text));
    }
    if heartbeat.in_flight_hash.is_empty() || open.len() > OPEN_MAX {
        return None;
    }
    let base = certain.iter().fold([0; 16], |hash, token| xor(hash, token));
    let fits = (0_u32..1 << open.len()).any(|chosen| {
        let members = open
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen >> index & 1 == 1);
        let hash = members.fold(base, |hash, (_, token)| xor(hash, token));
        min + chosen.count_ones() as usize == n && heartbeat.in_flight_hash == hash[..]
    });
    if fits {
        return None;
    }
    let hash = hex(&heartbeat.in_flight_hash);
    let text = format!(
        "expected the XOR of {n} tokens in heartbeat {}, got {hash}",
        heartbeat.n
    );
    Some(("heartbeats_hash_in_flight", text))
}

fn of_stand<'a>(stands: &[(&'a Bytes, Stand)], wanted: Stand) -> Vec<&'a Bytes> {
    let found = stands.iter().filter(|(_, stand)| *stand == wanted);
    found.map(|(token, _)| *token).collect()
}

fn xor(mut hash: [u8; 16], token: &Bytes) -> [u8; 16] {
    for (byte, other) in hash.iter_mut().zip(token) {
        *byte ^= other;
    }
    hash
}

/// Longer than messages and threads take.
const SLACK: Duration = Duration::from_millis(500);
/// More attempts that may or may not be counted give more sums than are worth trying.
const OPEN_MAX: usize = 10;
