//! What a worker tells of itself.

use super::{address_of, checked_by_promtool, scrape};
use crate::plans::{RequestWords, StepWords, echo, fail, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::http::get;
use escapement_tests::{Binaries, checkout, wait_for};
use rustix::process::Signal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Returns the code with which `worker health` ends.
fn health(address: &str) -> Option<i32> {
    let mut command = Command::new(Binaries::build().unwrap().worker);
    let output = command.args(["health", "--metrics-listen", address]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    output.status.code()
}

/// Looks until these figures stand at these numbers in one scrape.
async fn until(address: &str, expected: &[(&str, f64)]) -> BTreeMap<String, f64> {
    let stands = async || {
        let samples = scrape(address).await;
        let is_so = |(name, value): &(&str, f64)| samples.get(*name) == Some(value);
        expected.iter().all(is_so).then_some(samples)
    };
    let Ok(samples) = wait_for("figures of a worker", LIMIT, stands).await else {
        panic!("not {expected:?}: {:#?}", scrape(address).await);
    };
    samples
}

#[tokio::test]
async fn outcomes_that_nobody_acknowledges_are_counted_until_somebody_does() {
    let mut world = World::start().await;
    let settings = world.stock_worker("keeps", |settings| {
        settings
            .flag("--metrics-listen", "127.0.0.1:0")
            .flag("--actions", "delay")
    });
    let _worker = settings.await;
    let address = address_of(&world, "keeps").await;
    let steps = (0..3).map(|number| step(number, "delay").payload(json!({ "ms": 5_000 })));
    world.submit(&request(plan(steps)).concurrent(3)).await;
    let in_flight = r#"escapement_worker_attempts_in_flight{action="delay"}"#;
    let kept = "escapement_worker_unacknowledged_outcomes";
    until(&address, &[(in_flight, 3.0), (kept, 0.0)]).await;
    // It takes nothing any more, and its sockets stay.
    world.orchestrator.process.signal(Signal::STOP).unwrap();
    let ended = r#"escapement_worker_attempts_total{action="delay",outcome="success"}"#;
    until(&address, &[(in_flight, 0.0), (ended, 3.0), (kept, 3.0)]).await;
    world.orchestrator.process.signal(Signal::CONT).unwrap();
    until(&address, &[(kept, 0.0)]).await;
}

#[tokio::test]
async fn a_worker_tells_what_it_did_and_whether_it_has_a_session() {
    let mut world = World::start().await;
    let settings = world.stock_worker("counted", |settings| {
        let settings = settings.flag("--metrics-listen", "127.0.0.1:0");
        settings
            .flag("--actions", "echo,fail,delay")
            .flag("--max-in-flight", 4)
    });
    let _worker = settings.await;
    let address = address_of(&world, "counted").await;
    for _ in 0..3 {
        world.execute(request(plan([echo(0, json!({}))]))).await;
    }
    world.execute(request(plan([fail(0, "BROKEN")]))).await;
    let late = step(0, "delay").payload(json!({ "ms": 60_000 })).timeout_ms(50);
    world.execute(request(plan([late]))).await;
    let long = step(0, "delay")
        .payload(json!({ "ms": 60_000 }))
        .timeout_ms(120_000);
    world.submit(&request(plan([long]))).await;
    let expected = [
        ("escapement_worker_slots", 4.0),
        ("escapement_worker_sessions", 1.0),
        ("escapement_worker_disconnects_total", 0.0),
        (
            r#"escapement_worker_telemetry_dropped_total{signal="traces"}"#,
            0.0,
        ),
        (r#"escapement_worker_telemetry_dropped_total{signal="logs"}"#, 0.0),
        (
            r#"escapement_worker_attempts_total{action="echo",outcome="success"}"#,
            3.0,
        ),
        (
            r#"escapement_worker_attempts_total{action="echo",outcome="failure"}"#,
            0.0,
        ),
        (
            r#"escapement_worker_attempts_total{action="fail",outcome="failure"}"#,
            1.0,
        ),
        (
            r#"escapement_worker_attempts_total{action="delay",outcome="cancelled"}"#,
            1.0,
        ),
        (r#"escapement_worker_attempts_in_flight{action="delay"}"#, 1.0),
        (r#"escapement_worker_attempts_in_flight{action="echo"}"#, 0.0),
        (r#"escapement_worker_handler_seconds_count{action="echo"}"#, 3.0),
        (r#"escapement_worker_handler_seconds_count{action="delay"}"#, 1.0),
        (
            concat!(
                r#"escapement_worker_build_info{version=""#,
                env!("CARGO_PKG_VERSION"),
                r#""}"#
            ),
            1.0,
        ),
    ];
    let samples = until(&address, &expected).await;
    let page = std::fs::read_to_string(checkout::root().join("deploy/METRICS.md")).unwrap();
    let (_, rest) = page.split_once("\n## Workers\n").unwrap();
    let rows = rest.split("\n## ").next().unwrap().lines();
    let named = rows.filter_map(|line| line.strip_prefix("| `escapement_"));
    let named: BTreeSet<&str> = named.map(|row| row.split('`').next().unwrap()).collect();
    let shown = samples
        .keys()
        .filter_map(|sample| sample.strip_prefix("escapement_"));
    let shown = shown.map(|sample| sample.split('{').next().unwrap());
    let of_histogram = |name: &&str| name.ends_with("_bucket") || name.ends_with("_sum");
    let shown = shown.filter(|name| !of_histogram(name));
    let shown: BTreeSet<&str> = shown
        .map(|name| name.strip_suffix("_count").unwrap_or(name))
        .collect();
    assert_eq!(shown, named);
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    let (_, plain) = get(&address, "/metrics", "*/*").await.unwrap();
    checked_by_promtool(&plain);

    let ready = async || get(&address, "/readyz", "*/*").await;
    assert_eq!(ready().await, Some((200, "ready\n".to_owned())));
    assert_eq!(health(&address), Some(0));
    world.orchestrator.process.kill().unwrap();
    let is_alone = async || (ready().await? == (503, "no session\n".to_owned())).then_some(());
    wait_for("the end of the session", LIMIT, is_alone).await.unwrap();
    assert_eq!(health(&address), Some(1));
    assert_eq!(get(&address, "/livez", "*/*").await.unwrap().0, 200);
    let samples = scrape(&address).await;
    assert_eq!(samples["escapement_worker_sessions"], 0.0);
    assert!(samples["escapement_worker_disconnects_total"] >= 1.0);
}
