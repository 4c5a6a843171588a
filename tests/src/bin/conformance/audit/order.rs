//! Numbers, sizes and the order of messages on each stream.

use escapement_wire::worker::v1::session_request::Message as FromWorker;

use super::{Finding, find};
use crate::frames::MESSAGE_BYTES_MAX;
use crate::log::{Log, Said};

pub(super) fn judge(logs: &[Log], findings: &mut Vec<Finding>) {
    for log in logs {
        numbers(log, findings);
        hello(log, findings);
        heartbeats(log, findings);
        goodbye(log, findings);
        sizes(log, findings);
    }
    hello_numbers(logs, findings);
}

fn numbers(log: &Log, findings: &mut Vec<Finding>) {
    let heard = log
        .entries
        .iter()
        .filter(|entry| matches!(entry.said, Said::Worker(_)));
    for (expected, entry) in (1..).zip(heard) {
        if entry.seq != expected {
            let text = format!("expected seq {expected}, got {}", entry.seq);
            return find(findings, "messages_are_numbered", text);
        }
    }
}

fn hello(log: &Log, findings: &mut Vec<Finding>) {
    let mut heard = log
        .heard()
        .map(|(_, message)| matches!(message, FromWorker::Hello(_)));
    match (heard.next(), heard.any(|is_hello| is_hello)) {
        (Some(false), _) => find(
            findings,
            "hello_comes_first_and_once",
            "the first message is no `Hello`".to_owned(),
        ),
        (_, true) => find(
            findings,
            "hello_comes_first_and_once",
            "a second `Hello` on a stream".to_owned(),
        ),
        _ => {}
    }
}

fn heartbeats(log: &Log, findings: &mut Vec<Finding>) {
    let numbers: Vec<u64> = log.heartbeats().map(|(_, heartbeat)| heartbeat.n).collect();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        let text = format!(
            "expected heartbeat {} after {}, got {}",
            pair[0] + 1,
            pair[0],
            pair[1]
        );
        find(findings, "heartbeats_are_numbered", text);
    }
}

fn goodbye(log: &Log, findings: &mut Vec<Finding>) {
    let after = log
        .heard()
        .skip_while(|(_, message)| !matches!(message, FromWorker::Goodbye(_)))
        .skip(1);
    let after = after.count();
    if after > 0 {
        let text = format!("expected nothing after `Goodbye`, got {after} messages");
        find(findings, "goodbye_is_the_last_word", text);
    }
}

fn sizes(log: &Log, findings: &mut Vec<Finding>) {
    for entry in log
        .entries
        .iter()
        .filter(|entry| matches!(entry.said, Said::Worker(_)))
    {
        if entry.bytes > MESSAGE_BYTES_MAX {
            let text = format!("expected at most {MESSAGE_BYTES_MAX} bytes, got {}", entry.bytes);
            find(findings, "messages_keep_their_size", text);
        }
    }
}

/// Rising over the streams of a process, or 0 on each. A `Hello` that was queued for a dial in vain has its number too.
fn hello_numbers(logs: &[Log], findings: &mut Vec<Finding>) {
    let hellos = logs.iter().filter_map(Log::hello);
    let numbers: Vec<u64> = hellos.map(|hello| hello.hello_number).collect();
    let unnumbered = numbers.iter().all(|number| *number == 0);
    let rising = numbers.first() > Some(&0) && numbers.windows(2).all(|pair| pair[0] < pair[1]);
    if !unnumbered && !rising {
        let text = format!("expected rising numbers, or 0 on each, got {numbers:?}");
        find(findings, "hello_numbers_rise", text);
    }
}
