//! More lines than there is room for: to say so is a line, too, and comes to the same layer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Parser;
use escapement_otlp::{OtlpFlags, logs};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, registry};

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    otlp: OtlpFlags,
}

#[test]
fn lines_without_room_are_counted_with_those_that_tell_of_it() {
    // It accepts connections, and nobody answers on them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let flags = ["test", "--otlp-endpoint", &endpoint, "--otlp-signals", "logs"];
    let (export, _exported) = Flags::parse_from(flags).otlp.log("test", "0").unwrap();
    let export = export.unwrap();
    let subscriber = registry().with(logs::layer(&export).with_filter(LevelFilter::INFO));
    // `tracing` drops an event that the subscriber of one thread logs while it handles another; not so that of the process.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    for line in 0..100_000 {
        tracing::info!(line, "said");
    }
    let dropped = export.dropped();
    // Two batches are on their way at most, and as many as the queue holds wait; the first loss and each doubling is told.
    let (n_waiting, n_sent, n_told) = (16_384, 1_024, 20);
    let least = 100_000 - n_waiting - n_sent;
    let most = 100_000 - n_waiting + n_told;
    assert!((least..=most).contains(&dropped), "{dropped}");
}
