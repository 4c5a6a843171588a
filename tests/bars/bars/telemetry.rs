//! What figures, traces and receivers that do not answer cost: the same executions with nothing of it, and with each.

mod collector;

use escapement_tests::usage::{cpu_time, resident_bytes};
use escapement_tests::{
    Fault, Orchestrator, OrchestratorSettings, PrivateDirectory, Receiver, Reply, Worker, WorkerSettings,
    http, let_pass, wait_for,
};
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use self::collector::Collector;
use super::pairs::Pairs;
use super::small::{CALLERS, WARM_UP};
use crate::load::closed_loop;
use crate::plans::Template;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::IN_FLIGHT_MAX;
use crate::statistics::Figure;

/// Returns all bars of telemetry. In each round all take turns, at both loads.
pub(crate) async fn telemetry(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let hangs = Receiver::start_with(|_| Reply::Silence).await?;
    let single = Load {
        template: Template::single(),
        n_callers: CALLERS,
        unit: "executions/s",
        cpu_unit: "us per execution",
        lines: &SINGLE,
    };
    let chains = Load {
        template: Template::chain(1_024),
        n_callers: CHAIN_CALLERS,
        unit: "steps/s",
        cpu_unit: "us per step",
        lines: &CHAINS,
    };
    let mut sampled = [&single, &chains].map(|load| (load, Sampled::default()));
    let (mut shares, mut memory) = (Vec::new(), Pairs::default());
    for _ in 0..extent.rounds {
        // Two processes of one program can be apart by more than what is measured, each for as long as it lives.
        let mut places = Vec::new();
        for with in WITH {
            places.push(Place::start(with, &hangs).await?);
        }
        for (load, sampled) in &mut sampled {
            sample(&mut places, load, sampled, extent).await?;
        }
        shares.push(share_arrived(&places).await?);
        memory.value.push(resident(&places, With::Handlers)?);
        memory.baseline.push(resident(&places, With::Nothing)?);
    }
    let [single, chains] = sampled.map(|(load, sampled)| bars(load, &sampled));
    let mut bars = single?;
    bars.extend(chains?);
    bars.extend(left_behind(&shares, &memory));
    Ok(bars)
}

/// What an orchestrator does beside its work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum With {
    Nothing,
    /// The same once more: how far two of the same are apart is what cannot be measured.
    NothingAgain,
    /// Figures, scraped each second.
    Figures,
    /// Traces of this share of its executions.
    Traces(&'static str),
    /// Traces of all, with the spans of handlers, which the worker exports.
    Handlers,
    /// A sink that gets events at least once and one that gets them best effort, neither of which answers.
    DeadSinks,
}

/// The first is what all others are held against.
const WITH: [With; 7] = [
    With::Nothing,
    With::NothingAgain,
    With::Figures,
    With::Traces(TENTH),
    With::Traces(ALL),
    With::Handlers,
    With::DeadSinks,
];

/// Two bars: the names of a rate and of what it costs, what is there, what that is called, and the least ratio of the rates, whose
/// inverse is the most of the costs.
type Line = ([&'static str; 2], With, &'static str, f64);

const SINGLE: [Line; 6] = [
    (
        ["telemetry_noise_rate", "telemetry_noise_cpu"],
        With::NothingAgain,
        "the same once more",
        0.99,
    ),
    (
        ["metrics_rate", "metrics_cpu"],
        With::Figures,
        "figures scraped each second",
        0.99,
    ),
    (
        ["some_traces_rate", "some_traces_cpu"],
        With::Traces(TENTH),
        "traces of a tenth",
        0.99,
    ),
    (
        ["all_traces_rate", "all_traces_cpu"],
        With::Traces(ALL),
        "traces of all",
        0.95,
    ),
    (
        ["handler_traces_rate", "handler_traces_cpu"],
        With::Handlers,
        "traces of all with those of handlers",
        0.9,
    ),
    (
        ["dead_sinks_rate", "dead_sinks_cpu"],
        With::DeadSinks,
        "sinks that do not answer",
        0.98,
    ),
];
const CHAINS: [Line; 5] = [
    (
        ["telemetry_noise_chain_rate", "telemetry_noise_chain_cpu"],
        With::NothingAgain,
        "the same once more",
        0.99,
    ),
    (
        ["metrics_chain_rate", "metrics_chain_cpu"],
        With::Figures,
        "figures scraped each second",
        0.99,
    ),
    (
        ["some_traces_chain_rate", "some_traces_chain_cpu"],
        With::Traces(TENTH),
        "traces of a tenth",
        0.99,
    ),
    (
        ["all_traces_chain_rate", "all_traces_chain_cpu"],
        With::Traces(ALL),
        "traces of all",
        0.95,
    ),
    (
        ["handler_traces_chain_rate", "handler_traces_chain_cpu"],
        With::Handlers,
        "traces of all with those of handlers",
        0.9,
    ),
];

/// What callers hand in.
struct Load {
    template: Template,
    n_callers: usize,
    unit: &'static str,
    cpu_unit: &'static str,
    lines: &'static [Line],
}

impl Load {
    fn name(&self) -> String {
        match self.template.n_steps() {
            1 => format!("single-step executions, {} callers", self.n_callers),
            n_steps => format!("chains of {n_steps} steps, {} callers", self.n_callers),
        }
    }
}

/// Rounds of one load at one place.
#[derive(Default)]
struct Samples {
    /// By second.
    rates: Vec<f64>,
    /// Microseconds of orchestrator and worker.
    cpu_us: Vec<f64>,
}

/// The samples of one load, in the order of [`WITH`].
type Sampled = [Samples; WITH.len()];

/// Has all places that the load has lines about take turns, with the one that has nothing of it.
async fn sample(
    places: &mut [Place],
    load: &Load,
    sampled: &mut Sampled,
    extent: &Extent,
) -> Result<(), Fault> {
    let is_wanted = |with| with == With::Nothing || load.lines.iter().any(|(_, line, ..)| *line == with);
    let pairs = places.iter_mut().zip(sampled);
    let mut pairs: Vec<_> = pairs.filter(|(place, _)| is_wanted(place.with)).collect();
    for (place, _) in &mut pairs {
        place.loaded(load, WARM_UP).await?;
    }
    let n_places = pairs.len();
    for turn in 0..TURNS {
        // The first one of a turn finds the machine as the turn before left it, so each is first in turn.
        for index in (0..n_places).map(|index| (index + turn) % n_places) {
            let (place, samples) = &mut pairs[index];
            let (rate, cpu_us) = place.loaded(load, extent.span / TURN_SHARE).await?;
            samples.rates.push(rate);
            samples.cpu_us.push(cpu_us);
        }
    }
    Ok(())
}

/// Two bars for each line of the load.
fn bars(load: &Load, sampled: &Sampled) -> Result<Vec<Bar>, Fault> {
    let of = |with| {
        let place = WITH.iter().position(|there| *there == with);
        place.map(|place| &sampled[place]).ok_or("each has a place")
    };
    let nothing = of(With::Nothing)?;
    let mut bars = Vec::new();
    for ([rate, cost], with, called, least) in load.lines {
        let there = of(*with)?;
        let pairs = |of: fn(&Samples) -> &Vec<f64>| Pairs {
            value: of(there).clone(),
            baseline: of(nothing).clone(),
        };
        let bar = |name, what, unit, pairs: Pairs, aim| {
            Bar::new(name, what, unit, pairs.value(), aim).beside(pairs.baseline(NOTHING))
        };
        let load_name = load.name();
        bars.push(bar(
            rate,
            format!("{load_name}, {called}"),
            load.unit,
            pairs(|samples| &samples.rates),
            Aim::RatioAtLeast(*least),
        ));
        bars.push(bar(
            cost,
            format!("processor time of orchestrator and worker: {load_name}, {called}"),
            load.cpu_unit,
            pairs(|samples| &samples.cpu_us),
            Aim::RatioUnder((100.0 / least).round() / 100.0),
        ));
    }
    Ok(bars)
}

/// Returns the number of of that the spans of all executions came to the collector that got the least of them, in percent.
async fn share_arrived(places: &[Place]) -> Result<f64, Fault> {
    let traces_all = |place: &&Place| [With::Traces(ALL), With::Handlers].contains(&place.with);
    let mut least = f64::INFINITY;
    for place in places.iter().filter(traces_all) {
        let mut n_before = None;
        while n_before != Some(place.collector.n_spans()) {
            n_before = Some(place.collector.n_spans());
            let_pass(QUIET).await;
        }
        least = least.min(100.0 * place.collector.n_spans() as f64 / place.n_spans as f64);
    }
    Ok(least)
}

/// What orchestrator and worker have in memory, in MiB.
fn resident(places: &[Place], with: With) -> Result<f64, Fault> {
    let place = places.iter().find(|place| place.with == with);
    let place = place.ok_or("each has a place")?;
    let orchestrator = resident_bytes(place.orchestrator.process.id())?;
    let worker = resident_bytes(place.worker.process.id())?;
    Ok((orchestrator + worker) as f64 / f64::from(1 << 20))
}

/// What is dropped costs nothing, and what is kept of each execution would be many times what the programs take.
fn left_behind(shares: &[f64], memory: &Pairs) -> [Bar; 2] {
    let arrived = "spans that came to the collector, of those of all executions and chains";
    let kept =
        "resident memory of orchestrator and worker behind it all: traces of all with those of handlers";
    let shares = Figure::of(shares.iter().copied());
    [
        Bar::new("traces_arrived", arrived, "%", shares, Aim::AtLeast(99.0)),
        Bar::new(
            "traces_memory",
            kept,
            "MiB",
            memory.value(),
            Aim::RatioUnder(1.25),
        )
        .beside(memory.baseline(NOTHING)),
    ]
}

/// An orchestrator with one worker. Killed on drop.
struct Place {
    with: With,
    orchestrator: Orchestrator,
    worker: Worker,
    /// One for each caller.
    channels: Vec<Channel>,
    /// Where it serves its figures.
    figures: Option<String>,
    collector: Collector,
    /// Spans that all of its executions come to.
    n_spans: u64,
    _directory: PrivateDirectory,
}

impl Place {
    async fn start(with: With, hangs: &Receiver) -> Result<Self, Fault> {
        let directory = PrivateDirectory::new("bars")?;
        let collector = Collector::serve()?;
        let settings = OrchestratorSettings::new(directory.path());
        let settings = match with {
            With::Nothing | With::NothingAgain => settings,
            With::Figures => settings
                .flag("--metrics-listen", "127.0.0.1:0")
                .flag("--log-format", "json"),
            With::Traces(ratio) => settings
                .flag("--otlp-endpoint", collector.url())
                .flag("--trace-ratio", ratio),
            With::Handlers => settings
                .flag("--otlp-endpoint", collector.url())
                .flag("--trace-ratio", ALL),
            With::DeadSinks => settings
                .flag("--events", sinks(&directory, hangs)?)
                .flag("--event-webhook", hangs.url("/")),
        };
        let orchestrator = settings.start().await?;
        let figures = match with {
            With::Figures => Some(figures_of(&orchestrator).await?),
            _ => None,
        };
        let worker = WorkerSettings::new(&orchestrator.url(), "worker", directory.path(), directory.path());
        let worker = match with {
            With::Handlers => worker.flag("--otlp-endpoint", collector.url()),
            _ => worker,
        };
        let endpoint = Endpoint::from_shared(orchestrator.url())?;
        Ok(Self {
            with,
            channels: (0..CALLERS).map(|_| endpoint.connect_lazy()).collect(),
            worker: worker.flag("--max-in-flight", IN_FLIGHT_MAX).connect().await?,
            orchestrator,
            figures,
            collector,
            n_spans: 0,
            _directory: directory,
        })
    }

    /// What a load is done at for so long, by second, and what each of it takes of the processors, in microseconds: executions or steps,
    /// as the load counts.
    async fn loaded(&mut self, load: &Load, span: Duration) -> Result<(f64, f64), Fault> {
        let channels = self.channels[..load.n_callers].to_vec();
        // Aborted on drop.
        let mut scraping = JoinSet::new();
        if let Some(figures) = self.figures.clone() {
            scraping.spawn(scrape(figures));
        }
        let before = self.cpu_time()?;
        let sample = closed_loop(channels, &load.template, span).await?;
        let took = self.cpu_time()?.saturating_sub(before);
        if let Some(ended) = scraping.try_join_next() {
            ended??;
        }
        let (n_executions, n_steps) = (sample.latencies.len(), load.template.n_steps());
        // One of the execution, one of its time in the queue, one of each step, and perhaps one of its handler.
        let n_of_step = if self.with == With::Handlers { 2 } else { 1 };
        self.n_spans += (n_executions * (2 + n_steps * n_of_step)) as u64;
        let cpu_us = took.as_secs_f64() * 1e6 / (n_executions * n_steps) as f64;
        Ok((sample.rate * n_steps as f64, cpu_us))
    }

    /// Of orchestrator and worker.
    fn cpu_time(&self) -> Result<Duration, Fault> {
        Ok(cpu_time(self.orchestrator.process.id())? + cpu_time(self.worker.process.id())?)
    }
}

/// Scrapes as a Prometheus with an interval of a second does.
async fn scrape(figures: String) -> Result<(), Fault> {
    loop {
        let scraped = http::get(&figures, "/metrics", "application/openmetrics-text").await;
        match scraped {
            Some((200, _)) => let_pass(Duration::from_secs(1)).await,
            other => return Err(format!("a scrape should be answered, and was not: {other:?}").into()),
        }
    }
}

/// Where an orchestrator serves its figures, as its log in JSON says.
async fn figures_of(orchestrator: &Orchestrator) -> Result<String, Fault> {
    let told = async || {
        let log = orchestrator.process.stderr();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let line = lines.find(|line| line["message"] == "metrics served")?;
        Some(line["address"].as_str()?.to_owned())
    };
    wait_for("the listener of figures", START_LIMIT, told).await
}

/// Returns a file with one sink.
fn sinks(directory: &PrivateDirectory, receiver: &Receiver) -> Result<String, Fault> {
    let (file, secret) = (directory.join("sinks.toml"), directory.join("sink.secret"));
    std::fs::write(&secret, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
    let text = format!(
        "version = 1\n[[sink]]\nname = \"dead\"\nkind = \"webhook\"\nurl = \"{}\"\nsecret_file = \"{}\"\n",
        receiver.url("/"),
        secret.display()
    );
    std::fs::write(&file, text)?;
    Ok(file.display().to_string())
}

/// Turns of a round. They are short: what else the machine does falls on few, or on all that a ratio is of.
const TURNS: usize = 8;
/// The part of a span that a turn takes.
const TURN_SHARE: u32 = 4;
/// What the ratios are to.
const NOTHING: &str = "nothing of it";
/// Shares of executions that are traced.
const TENTH: &str = "0.1";
const ALL: &str = "1";
/// Few, so that a span of measuring holds many chains.
const CHAIN_CALLERS: usize = 8;
/// A collector that got nothing for so long gets nothing more: batches are sent after a second at most.
const QUIET: Duration = Duration::from_secs(3);
const START_LIMIT: Duration = Duration::from_secs(30);
