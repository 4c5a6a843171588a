//! What the dearest request of each kind costs the threads that all callers and workers share, in processor time: measured, held
//! against limits, and shown on a page. Says nothing about how long a caller waits.

mod calls;
mod keeping;
mod orders;
mod people;
mod runs;
mod sessions;
mod stage;

use crate::shares::Shares;
use escapement_tests::checkout;
use prost_reflect::DescriptorPool;
use stage::Stage;
use std::collections::BTreeSet;
use std::time::Duration;

/// A request, and what it may cost.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// `Service/Method`, or `Session: kind` for a message of a worker.
    name: &'static str,
    /// What makes it dear.
    worst: &'static str,
    /// Milliseconds of the engine's thread.
    engine_max: u32,
    /// Milliseconds of each of the other threads that everybody shares.
    other_max: u32,
}

/// A kind and what one of it took.
struct Cost {
    kind: Kind,
    each: Shares,
    /// How many times as long as usual the machine took for what it did meanwhile.
    slowness: f64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dearest_request_of_each_kind_costs_what_the_page_says_at_most() {
    let mut stage = Stage::start().await;
    // The calls come last: they fill the queue.
    sessions::measure(&mut stage).await;
    orders::measure(&mut stage).await;
    runs::measure(&mut stage).await;
    people::measure(&mut stage).await;
    keeping::measure(&mut stage).await;
    calls::measure(&mut stage).await;
    let costs = stage.finish();

    let mut broken: Vec<String> = costs.iter().filter_map(Cost::complaint).collect();
    let told: BTreeSet<&str> = costs.iter().map(|cost| cost.kind.name).collect();
    for name in every_request() {
        if !told.contains(name.as_str()) {
            broken.push(format!("{name} has no row"));
        }
    }
    let path = checkout::root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page
        .split_once(BEGIN)
        .expect("the page has a beginning of the table");
    let (table, tail) = rest.split_once(END).expect("the page has an end of the table");
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        if !cfg!(debug_assertions) {
            panic!("the figures of the page are of the build of `cargo verify`: {RENEW}");
        }
        let table = std::iter::once(HEAD.to_owned()).chain(costs.iter().map(Cost::row));
        let page = format!(
            "{head}{BEGIN}\n\n{}\n\n{END}{tail}",
            table.collect::<Vec<_>>().join("\n")
        );
        std::fs::write(&path, page).unwrap();
    } else {
        // Figures differ from run to run; what is measured and what it may cost must not.
        let on_page = table.lines().filter_map(agreed).skip(2);
        let here: Vec<_> = costs.iter().map(Cost::row).collect();
        let here = here.iter().filter_map(|row| agreed(row));
        if !on_page.eq(here) {
            broken.push(format!("the page has other rows; renew it: {RENEW}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Kind, worst and limits of a row.
fn agreed(row: &str) -> Option<(&str, &str, &str, &str)> {
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    (cells.len() > 10).then(|| (cells[1], cells[2], cells[9], cells[10]))
}

/// Every method of every service and every message of a worker, as the descriptors have them.
fn every_request() -> Vec<String> {
    let pool = DescriptorPool::decode(escapement_wire::DESCRIPTORS).unwrap();
    let mut names = Vec::new();
    for service in pool.services() {
        if ["escapement.", "externalscaler."]
            .iter()
            .any(|ours| service.full_name().starts_with(ours))
        {
            let methods = service.methods();
            names.extend(methods.map(|method| format!("{}/{}", service.name(), method.name())));
        }
    }
    let request = pool.get_message_by_name("escapement.worker.v1.SessionRequest");
    let request = request.expect("workers have a message");
    let kinds = request.oneofs().next().expect("it is one of several kinds");
    names.extend(kinds.fields().map(|kind| format!("Session: {}", kind.name())));
    assert!(names.len() > 25, "{names:?}");
    names
}

impl Cost {
    /// What is too dear.
    fn complaint(&self) -> Option<String> {
        let [engine, others @ .., aside] = self.each.all();
        let allowed = |ms: u32| Duration::from_millis(u64::from(ms)).mul_f64(self.slowness);
        let is_broken = engine > allowed(self.kind.engine_max)
            || others
                .into_iter()
                .any(|other| other > allowed(self.kind.other_max))
            || aside > ASIDE_MAX.mul_f64(self.slowness);
        is_broken.then(|| self.line())
    }

    fn line(&self) -> String {
        let Kind { name, worst, .. } = &self.kind;
        format!(
            "{name}, {worst}: {:.1?} on a machine that is {:.1} times as slow as usual",
            self.each, self.slowness
        )
    }

    fn row(&self) -> String {
        let ms = |share: Duration| format!("{:.2}", share.as_secs_f64() * 1_000.0);
        let shares = self.each.all().map(ms).join(" | ");
        let Kind {
            name,
            worst,
            engine_max,
            other_max,
        } = self.kind;
        format!("| `{name}` | {worst} | {shares} | {engine_max} | {other_max} |")
    }
}

const PAGE: &str = "tests/hostile/README.md";
const BEGIN: &str = "<!-- begin costs -->";
const END: &str = "<!-- end costs -->";
const HEAD: &str = "\
| request | the dearest | engine | writer | edge | callers | runs | aside | engine at most | each other at most |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
const RENEW: &str = "ESCAPEMENT_WRITE=1 cargo test -p escapement-tests --test hostile costs";
/// A thread that few share is had for so long at most.
const ASIDE_MAX: Duration = Duration::from_secs(5);
