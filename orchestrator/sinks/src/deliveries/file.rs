//! The file of sinks: TOML, read as a whole or not at all, with the secrets that it names. How a sink is reached is read elsewhere.

use super::key::{Feed, SinkKey};
use super::way::{Way, WrittenWay, way};
use crate::turns::Wanted;
use escapement_delivery::Limits;
use escapement_model::Namespace;
use escapement_transport::reload::{Contents, Reloadable};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The sinks of a file. The default has none.
#[derive(Debug, Default)]
pub struct SinksFile {
    sinks: Vec<Sink>,
}

/// Exactly one of these.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    pub(crate) name: String,
    pub(crate) feed: Feed,
    pub(crate) way: Way,
    pub(crate) wanted: Wanted,
    pub(crate) begin: Begin,
    /// For one try, from the connection to the answer.
    pub(crate) timeout: Duration,
    pub(crate) limits: Limits,
    /// Bytes of a result, as it is stored, that goes with its event.
    pub(crate) data_bytes_max: usize,
}

impl Sink {
    pub(crate) fn key(&self) -> SinkKey {
        SinkKey {
            name: self.name.clone(),
            feed: self.feed,
        }
    }
}

/// Where a sink begins that has had nothing yet.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Begin {
    /// With the oldest event that is kept.
    #[default]
    Oldest,
    /// With the next event.
    Newest,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default)]
    sink: Vec<WrittenSink>,
}

/// A sink as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSink {
    name: String,
    #[serde(default)]
    feed: Feed,
    kind: String,
    url: String,
    secret_file: Option<PathBuf>,
    subject: Option<String>,
    credentials_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    allow_plaintext: bool,
    #[serde(default)]
    types: Vec<String>,
    namespaces: Option<Vec<String>>,
    #[serde(default)]
    begin: Begin,
    timeout_ms: Option<u64>,
    pause_max_ms: Option<u64>,
    give_up_after_ms: Option<u64>,
    data_bytes_max: Option<u64>,
}

impl SinksFile {
    /// Reads the file, and the secrets that it names, now and whenever they change.
    ///
    /// # Errors
    /// The text names the file and what is wrong.
    pub fn reloadable(path: &Path) -> Result<Reloadable<Self>, String> {
        let owned = path.to_owned();
        let follow = {
            let path = owned.clone();
            move |contents: &Contents| secret_files(contents.of(&path))
        };
        let parse = move |contents: &Contents| {
            let read = |file: &Path| contents.of(file);
            Self::parse(contents.of(&owned), &read)
                .map_err(|problem| format!("{} is refused: {problem}", owned.display()))
        };
        Reloadable::load_following("sinks", vec![path.to_owned()], follow, parse)
    }

    pub(crate) fn sinks(&self) -> &[Sink] {
        &self.sinks
    }

    /// `read` gives what a file of secrets holds.
    pub(super) fn parse<'c>(text: &[u8], read: &impl Fn(&Path) -> &'c [u8]) -> Result<Self, String> {
        let written = written(text)?;
        if written.version != 1 {
            return Err(format!("version is {}, and must be 1", written.version));
        }
        if written.sink.len() > SINKS_MAX {
            return Err(format!(
                "it has {} sinks, and may have {SINKS_MAX}",
                written.sink.len()
            ));
        }
        let mut names = BTreeSet::new();
        let sinks = written.sink.into_iter().enumerate().map(|(index, written)| {
            let path = format!("sink[{index}]");
            if !names.insert(written.name.clone()) {
                return Err(format!("{path}.name {:?} is that of another sink", written.name));
            }
            sink(written, read).map_err(|problem| format!("{path}.{problem}"))
        });
        let sinks = sinks.collect::<Result<_, _>>()?;
        Ok(Self { sinks })
    }
}

/// Names the sinks.
impl fmt::Display for SinksFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.sinks.iter().map(|sink| sink.name.as_str()).collect();
        match names.as_slice() {
            [] => f.write_str("no sinks"),
            names => write!(f, "sinks {}", names.join(", ")),
        }
    }
}

fn written(text: &[u8]) -> Result<Written, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("it is no text: {error}"))?;
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        format!("line {line}: {}", error.message())
    })
}

/// Returns the files of secrets that the file names; none if it cannot be read, which is said elsewhere.
fn secret_files(text: &[u8]) -> Vec<PathBuf> {
    let written = written(text).map(|written| written.sink);
    let sinks = written.unwrap_or_default().into_iter();
    sinks
        .flat_map(|sink| sink.secret_file.into_iter().chain(sink.credentials_file))
        .collect()
}

/// The problem begins with the key.
fn sink<'c>(written: WrittenSink, read: &impl Fn(&Path) -> &'c [u8]) -> Result<Sink, String> {
    if Namespace::parse(&written.name).is_none() {
        return Err("name must be 1 to 63 of a to z, 0 to 9 and -, with - inside only".to_owned());
    }
    let way = way(
        &WrittenWay {
            kind: written.kind,
            url: written.url,
            secret_file: written.secret_file,
            subject: written.subject,
            credentials_file: written.credentials_file,
            ca_file: written.ca_file,
            allow_plaintext: written.allow_plaintext,
        },
        read,
    )?;
    let wanted = wanted(written.feed, written.types, written.namespaces)?;
    let limits = Limits {
        pause_max_ms: within(
            written.pause_max_ms,
            "pause_max_ms",
            100..=PAUSE_MS_MAX,
            PAUSE_MS_MAX,
        )?,
        give_up_after_ms: within(
            written.give_up_after_ms,
            "give_up_after_ms",
            1_000..=YEAR_MS,
            3 * DAY_MS,
        )?,
    };
    let timeout_ms = within(written.timeout_ms, "timeout_ms", 100..=120_000, 15_000)?;
    let data_bytes_max = within(
        written.data_bytes_max,
        "data_bytes_max",
        0..=DATA_BYTES_MAX,
        DATA_BYTES,
    )?;
    Ok(Sink {
        name: written.name,
        feed: written.feed,
        way,
        wanted,
        begin: written.begin,
        timeout: Duration::from_millis(timeout_ms),
        limits,
        data_bytes_max: usize::try_from(data_bytes_max).expect("the range says so"),
    })
}

fn wanted(feed: Feed, types: Vec<String>, namespaces: Option<Vec<String>>) -> Result<Wanted, String> {
    let parsed = |names: Vec<String>| {
        let parsed = names.iter().map(|name| {
            Namespace::parse(name)
                .ok_or_else(|| format!("namespaces holds {name:?}, which no namespace is called"))
        });
        parsed.collect::<Result<Vec<_>, _>>()
    };
    let namespaces = namespaces.map(parsed).transpose()?;
    let wanted = match feed {
        Feed::Executions => Wanted::new(types, namespaces),
        Feed::Runs => Wanted::of_runs(types, namespaces),
    };
    wanted.map_err(|problem| format!("types {problem}"))
}

fn within(
    given: Option<u64>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
    default: u64,
) -> Result<u64, String> {
    let given = given.unwrap_or(default);
    if bounds.contains(&given) {
        return Ok(given);
    }
    let (min, max) = bounds.into_inner();
    Err(format!("{key} must be a whole number from {min} to {max}"))
}

/// Sinks of one file.
pub(crate) const SINKS_MAX: usize = 8;
/// 4 h.
const PAUSE_MS_MAX: u64 = 14_400_000;
const DAY_MS: u64 = 86_400_000;
const YEAR_MS: u64 = 365 * DAY_MS;
/// 256 KiB: most receivers take no more, and a server of NATS takes 1 MiB with everything else.
const DATA_BYTES: u64 = 256 << 10;
/// As much as any event has.
const DATA_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests;
