//! Figures in OpenMetrics as OTLP has them: the same names, labels and values. Asks nobody for a figure.

use crate::attributes::{nanoseconds, text};
use escapement_model::hex;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as ExemplarValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};
use std::ops::Range;

/// Returns the figures of a text of OpenMetrics that this process wrote. `time`: Unix nanoseconds, from where they began at 0 to now.
///
/// Counters keep the `_total` of their names, so that queries are the same ones. Lines of other kinds are left out.
pub(crate) fn metrics(open_metrics: &str, time: &Range<u64>) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            metrics.push(empty(described, help));
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), Sample::read(line)) {
            take_in(metric, sample, time);
        }
    }
    metrics.retain(has_points);
    metrics
}

/// A line with a value.
struct Sample<'a> {
    name: &'a str,
    labels: Labels<'a>,
    value: &'a str,
    /// The last one that was counted here and is traced.
    exemplar: Option<Exemplar>,
}

type Labels<'a> = Vec<(&'a str, String)>;

impl<'a> Sample<'a> {
    /// `None` for a comment.
    fn read(line: &'a str) -> Option<Self> {
        let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            (labels, rest) = labels_of(inside)?;
        }
        let (value, behind) = rest.split_once(" # {").unwrap_or((rest, ""));
        (!name.starts_with('#')).then(|| Self {
            name,
            labels,
            value: value.trim(),
            exemplar: exemplar(behind),
        })
    }
}

/// Returns the labels up to the brace that ends them, and what is behind it.
fn labels_of(mut inside: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    while !inside.starts_with('}') {
        let (label, quoted) = inside.split_once("=\"")?;
        let (value, behind) = unquoted(quoted)?;
        labels.push((label, value));
        inside = behind.strip_prefix(',').unwrap_or(behind);
    }
    Some((labels, &inside[1..]))
}

/// Returns an exemplar behind its brace: the label `trace_id`, a value, and seconds since 1970.
fn exemplar(inside: &str) -> Option<Exemplar> {
    let (labels, numbers) = labels_of(inside)?;
    let (_, trace_id) = labels.iter().find(|(label, _)| *label == "trace_id")?;
    let trace_id = hex::array::<16>(trace_id)?;
    let mut numbers = numbers.split_ascii_whitespace();
    let value = numbers.next()?.parse().ok()?;
    let at: f64 = numbers.next()?.parse().ok()?;
    Some(Exemplar {
        trace_id: trace_id.to_vec(),
        value: Some(ExemplarValue::AsDouble(value)),
        time_unix_nano: nanoseconds((at * 1_000.0) as i64),
        ..Exemplar::default()
    })
}

/// The text up to the next quotation mark, and what is behind that.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            other => value.push(other),
        }
    }
    None
}

/// A metric without points, of what stands behind `# TYPE `: a name and a kind.
fn empty(described: &str, help: &str) -> Metric {
    let (name, kind) = described.split_once(' ').unwrap_or((described, ""));
    let aggregation_temporality = AggregationTemporality::Cumulative as i32;
    let data = match kind {
        "counter" => Some(Data::Sum(Sum {
            data_points: Vec::new(),
            aggregation_temporality,
            is_monotonic: true,
        })),
        "gauge" => Some(Data::Gauge(Gauge::default())),
        "histogram" => Some(Data::Histogram(Histogram {
            data_points: Vec::new(),
            aggregation_temporality,
        })),
        _ => None,
    };
    let suffix = if kind == "counter" { "_total" } else { "" };
    Metric {
        name: format!("{name}{suffix}"),
        description: help.to_owned(),
        unit: unit(name).to_owned(),
        data,
        ..Metric::default()
    }
}

fn has_points(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    }
}

fn take_in(metric: &mut Metric, mut sample: Sample<'_>, time: &Range<u64>) {
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.data_points.extend(number(&sample, time.start, time.end)),
        // What stands now began at no time.
        Some(Data::Gauge(gauge)) => gauge.data_points.extend(number(&sample, 0, time.end)),
        Some(Data::Histogram(histogram)) => {
            let limit = sample.labels.iter().position(|(label, _)| *label == "le");
            let limit = limit.map(|place| sample.labels.remove(place).1);
            let (attributes, points) = (attributes(&sample), &mut histogram.data_points);
            // All lines of one histogram stand together.
            if points.last().is_none_or(|last| last.attributes != attributes) {
                points.push(HistogramDataPoint {
                    attributes,
                    start_time_unix_nano: time.start,
                    time_unix_nano: time.end,
                    ..HistogramDataPoint::default()
                });
            }
            let point = points.last_mut().expect("one was just there or made");
            point.exemplars.extend(sample.exemplar.take());
            let part = sample.name.strip_prefix(&metric.name).unwrap_or_default();
            put(point, part, limit.as_deref(), sample.value);
        }
        _ => {}
    }
}

/// Puts a line of a histogram where it belongs. A bucket of OpenMetrics counts those below, too; one of OTLP does not.
fn put(point: &mut HistogramDataPoint, part: &str, limit: Option<&str>, value: &str) {
    match (part, limit) {
        ("_sum", _) => point.sum = value.parse().ok(),
        ("_count", _) => point.count = value.parse().unwrap_or_default(),
        ("_bucket", Some(limit)) => {
            let below: u64 = point.bucket_counts.iter().sum();
            let count: u64 = value.parse().unwrap_or_default();
            point.bucket_counts.push(count.saturating_sub(below));
            // The last one has no limit.
            point
                .explicit_bounds
                .extend(limit.parse().ok().filter(|limit: &f64| limit.is_finite()));
        }
        _ => {}
    }
}

/// `None` if the value is none.
fn number(sample: &Sample<'_>, start_time_unix_nano: u64, time_unix_nano: u64) -> Option<NumberDataPoint> {
    let whole = sample.value.parse().map(Value::AsInt);
    let value = whole
        .or_else(|_| sample.value.parse().map(Value::AsDouble))
        .ok()?;
    Some(NumberDataPoint {
        attributes: attributes(sample),
        start_time_unix_nano,
        time_unix_nano,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn attributes(sample: &Sample<'_>) -> Vec<KeyValue> {
    let labels = sample.labels.iter();
    labels.map(|(name, value)| text(name, value.as_str())).collect()
}

/// Returns the unit as UCUM spells it, which the end of the name tells.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
