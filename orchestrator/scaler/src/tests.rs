#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::looks::Source;
use crate::metadata::Pool;
use crate::service::Scaler;
use escapement_engine::ActionView;
use escapement_wire::externalscaler::ScaledObjectRef;
use escapement_wire::externalscaler::external_scaler_server::ExternalScaler;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, advance, timeout};
use tokio_stream::StreamExt;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

/// Actions with what waits, runs and is held back, as a test says; counts the looks at them.
#[derive(Debug, Default)]
struct Fleet {
    actions: Mutex<BTreeMap<&'static str, [u32; 3]>>,
    n_looks: AtomicUsize,
}

impl Fleet {
    fn set(&self, name: &'static str, figures: [u32; 3]) {
        self.actions.lock().unwrap().insert(name, figures);
    }

    fn views(&self) -> Vec<ActionView> {
        let actions = self.actions.lock().unwrap();
        let views = actions
            .iter()
            .map(|(name, [waiting, in_flight, held_back])| ActionView {
                name: (*name).into(),
                description: "".into(),
                input_schema: "".into(),
                traits: Vec::new(),
                workers: 0,
                slots: 0,
                free_slots: 0,
                in_flight: *in_flight,
                waiting: *waiting,
                oldest_wait_ms: 0,
                held_back: *held_back,
                is_declared: false,
                registered_for_ms: None,
            });
        views.collect()
    }
}

impl Source for Fleet {
    fn actions(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ActionView>, Status>> + Send + '_>> {
        self.n_looks.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(self.views()) })
    }
}

/// Lets time pass, with all that happens meanwhile.
async fn pass(time: Duration) {
    let _over = timeout(time, std::future::pending::<()>()).await;
}

fn scaled(metadata: &[(&str, &str)]) -> ScaledObjectRef {
    let pairs = metadata.iter();
    ScaledObjectRef {
        scaler_metadata: pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..ScaledObjectRef::default()
    }
}

#[test]
fn demand_is_what_waits_runs_and_is_held_back_of_the_actions_that_match() {
    let fleet = Fleet::default();
    for (name, figures) in [
        ("billing.charge", [1, 20, 0]),
        ("billing.refund", [0, 0, 300]),
        ("mail", [4_000, 0, 0]),
    ] {
        fleet.set(name, figures);
    }
    for (actions, demand) in [
        ("billing.*", 321),
        (" mail , billing.refund", 4_300),
        ("bill", 0),
        ("*", 4_321),
    ] {
        let pool = Pool::of(&scaled(&[("actions", actions), ("slotsPerWorker", "16")])).unwrap();
        assert_eq!(pool.demand(&fleet.views()), demand, "{actions}");
    }
}

#[test]
fn metadata_that_is_wrong_is_refused_by_the_name_of_its_key() {
    let many = ["a"; 65].join(",");
    let good = [
        ("actions", "a"),
        ("slotsPerWorker", "16"),
        ("targetUtilisation", "0.5"),
    ];
    let target = Pool::of(&scaled(&good)).unwrap().target;
    assert!((target - 8.0).abs() < f64::EPSILON, "{target}");
    for (key, value) in [
        ("actions", None),
        ("actions", Some("")),
        ("actions", Some("a,,b")),
        ("actions", Some(many.as_str())),
        ("slotsPerWorker", None),
        ("slotsPerWorker", Some("0")),
        ("slotsPerWorker", Some("4097")),
        ("slotsPerWorker", Some("1.5")),
        ("targetUtilisation", Some("0")),
        ("targetUtilisation", Some("1.01")),
        ("targetUtilisation", Some("NaN")),
    ] {
        let mut changed = scaled(&good);
        changed.scaler_metadata.remove(key);
        if let Some(value) = value {
            changed.scaler_metadata.insert(key.to_owned(), value.to_owned());
        }
        let refused = Pool::of(&changed).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{key} {value:?}");
        let details = refused.get_error_details();
        let field = &details.bad_request().unwrap().field_violations[0].field;
        assert_eq!(*field, format!("scalerMetadata.{key}"), "{value:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_pushed_within_100_ms_by_one_look_for_all_that_follow() {
    let fleet = Arc::new(Fleet::default());
    let (_closing, closing) = watch::channel(false);
    let scaler = Scaler::new(Arc::clone(&fleet) as Arc<dyn Source>, closing);
    pass(Duration::from_secs(60)).await;
    assert_eq!(fleet.n_looks.load(Ordering::Relaxed), 0, "nobody follows");
    let mut streams = Vec::new();
    for actions in ["a", "b", "*"] {
        let asked = scaled(&[("actions", actions), ("slotsPerWorker", "1")]);
        let stream = scaler.stream_is_active(Request::new(asked)).await.unwrap();
        let mut stream = stream.into_inner();
        assert!(!stream.next().await.unwrap().unwrap().result);
        streams.push(stream);
    }
    for figures in [[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]] {
        advance(Duration::from_millis(7)).await;
        let changed = Instant::now();
        fleet.set("a", figures);
        for stream in [0, 2] {
            let pushed = streams[stream].next().await.unwrap().unwrap().result;
            assert_eq!(pushed, figures != [0, 0, 0]);
        }
        assert!(
            changed.elapsed() <= Duration::from_millis(100),
            "{:?}",
            changed.elapsed()
        );
    }
    let before = fleet.n_looks.load(Ordering::Relaxed);
    pass(Duration::from_secs(10)).await;
    let n_looks = fleet.n_looks.load(Ordering::Relaxed) - before;
    assert!(
        (150..=201).contains(&n_looks),
        "{n_looks} looks in 10 s, of three streams"
    );
    let silent = timeout(Duration::from_secs(1), streams[1].next()).await;
    assert!(silent.is_err(), "nothing happened to b");

    drop(streams);
    pass(Duration::from_secs(1)).await;
    let before = fleet.n_looks.load(Ordering::Relaxed);
    pass(Duration::from_secs(60)).await;
    assert_eq!(
        fleet.n_looks.load(Ordering::Relaxed),
        before,
        "nobody follows any more"
    );
    fleet.set("a", [1, 0, 0]);
    let asked = scaled(&[("actions", "a"), ("slotsPerWorker", "1")]);
    let stream = scaler.stream_is_active(Request::new(asked)).await.unwrap();
    let first = stream.into_inner().next().await.unwrap().unwrap();
    assert!(first.result, "what was seen before is not told");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_orchestrator_does() {
    let (closing, is_closing) = watch::channel(false);
    let scaler = Scaler::new(Arc::new(Fleet::default()), is_closing);
    let asked = scaled(&[("actions", "a"), ("slotsPerWorker", "1")]);
    let stream = scaler.stream_is_active(Request::new(asked)).await.unwrap();
    let mut stream = stream.into_inner();
    assert!(stream.next().await.is_some());
    closing.send_replace(true);
    assert!(stream.next().await.is_none());
}
