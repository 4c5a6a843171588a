//! What each curve is called, how it is drawn, and what is said about how it was measured. Holds no figures.

use crate::plot::Scale;

/// One curve as the page shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Its name in the data and on the command line.
    pub(super) name: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// How it was measured, one sentence each.
    pub(super) how: &'static [&'static str],
    /// What it runs over.
    pub(super) x: (&'static str, Scale),
    /// What it counts; lines in other units stand in the table alone.
    pub(super) y: (&'static str, Scale),
    /// The unit of `y`.
    pub(super) unit: &'static str,
}

const LOG: Scale = Scale::Logarithmic;
const LINEAR: Scale = Scale::Linear;

/// In the order of the page.
pub(super) const SHAPES: [Shape; 9] = [
    Shape {
        name: "steps",
        title: "Cost of a step by the size of the plan",
        how: &[
            "One caller executes the plan again and again; the figure is the time of a plan by its steps.",
            "A chain's steps wait for each other; independent steps run 256 at a time.",
        ],
        x: ("steps of the plan", LOG),
        y: ("us per step", LOG),
        unit: "us",
    },
    Shape {
        name: "chains",
        title: "Throughput of chains by their length",
        how: &["16 callers at once, each with a connection of its own, each executing chain after chain."],
        x: ("steps of the chain", LOG),
        y: ("steps/s", LINEAR),
        unit: "steps/s",
    },
    Shape {
        name: "callers",
        title: "Throughput by callers",
        how: &[
            "Plans of one step and one worker; each caller has a connection of its own and waits for its answer.",
        ],
        x: ("callers", LOG),
        y: ("executions/s", LINEAR),
        unit: "executions/s",
    },
    Shape {
        name: "workers",
        title: "Throughput by workers",
        how: &[
            "Plans of one step and 64 callers; each worker is a stock worker in a process of its own.",
            "The floor has as many workers, each in a process of its own as well, and gives them the executions in turn.",
        ],
        x: ("workers", LOG),
        y: ("executions/s", LINEAR),
        unit: "executions/s",
    },
    Shape {
        name: "queued",
        title: "Memory by queued executions",
        how: &[
            "Plans of one step are submitted while one execution runs and holds the only place.",
            "By default the requests of the first 10,000 are kept in memory and those of all others on the disk alone; \
             `--max-queued-in-memory` raises that to all of them.",
            "KiB each is what came on top of an orchestrator that had 256 queued, so that what it takes once is not counted.",
        ],
        x: ("queued executions", LOG),
        y: ("resident memory of the orchestrator, MiB", LOG),
        unit: "MiB",
    },
    Shape {
        name: "running",
        title: "Memory by running executions",
        how: &[
            "Plans of one step, each of which a worker has taken and reported as started, and never ends.",
            "The workers are sessions with room for 4,096 steps each, which are there from the beginning.",
            "KiB each is counted as above.",
        ],
        x: ("running executions", LOG),
        y: ("resident memory of the orchestrator, MiB", LOG),
        unit: "MiB",
    },
    Shape {
        name: "sessions",
        title: "Memory by idle worker sessions",
        how: &[
            "Each session has a connection of its own, offers one action, and sends a heartbeat every 3 s.",
            "The floor holds the same streams with the same heartbeats.",
            "KiB each is what came on top of the process without sessions.",
        ],
        x: ("sessions", LOG),
        y: ("resident memory, MiB", LOG),
        unit: "MiB",
    },
    Shape {
        name: "session_cpu",
        title: "Processor time by idle worker sessions",
        how: &[
            "The same sessions; user and system time of the orchestrator alone, or of the floor's server, as a share of one core.",
        ],
        x: ("sessions", LOG),
        y: ("% of one core", LOG),
        unit: "%",
    },
    Shape {
        name: "latency",
        title: "Latency by load",
        how: &[
            "Plans of one step arrive by a schedule (a Poisson process from a fixed seed) over 64 connections, \
             whether or not earlier ones were answered.",
            "A latency counts from the scheduled moment, so that waiting behind a slow one is not hidden.",
            "The loads are shares of the highest rate of 64 callers that wait for their answers, measured in the same run.",
            "The floor gets the same arrivals.",
        ],
        x: ("percentile", Scale::Nines),
        y: ("ms", LOG),
        unit: "ms",
    },
];
