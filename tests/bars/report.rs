//! A bar as a line of text and a line of JSON. Measures nothing and decides nothing but whether an aim is met.

use serde_json::{Map, Value, json};

use crate::process::Bill;
use crate::statistics::Figure;

/// A measured bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Name, for programs.
    pub(crate) name: &'static str,
    /// What was measured, for people.
    pub(crate) what: String,
    /// What the figures count.
    pub(crate) unit: &'static str,
    /// What the product does.
    pub(crate) value: Figure,
    /// The limit beside it, from the same run.
    pub(crate) baseline: Option<Baseline>,
    /// What it should be.
    pub(crate) aim: Aim,
    /// What the processors did meanwhile, where that is what limits.
    pub(crate) cost: Option<Cost>,
}

/// Microseconds on the processors for each operation, process by process.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// What an operation is.
    pub(crate) operation: &'static str,
    /// The product's processes.
    pub(crate) product: Vec<(&'static str, f64)>,
    /// The floor's.
    pub(crate) floor: Vec<(&'static str, f64)>,
    /// KiB that the product wrote to its disk.
    pub(crate) written_kib: f64,
}

/// What a bar is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    /// What it is.
    pub(crate) name: &'static str,
    /// In the unit of the bar.
    pub(crate) value: Figure,
    /// Value by baseline, round by round.
    pub(crate) ratio: Figure,
}

/// What a bar asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aim {
    /// At least this value.
    AtLeast(f64),
    /// Less than this value.
    Under(f64),
    /// At least this ratio.
    RatioAtLeast(f64),
    /// Less than this ratio.
    RatioUnder(f64),
}

impl Cost {
    /// From both bills.
    pub(crate) fn of(operation: &'static str, product: &Bill, floor: &Bill) -> Self {
        Self {
            operation,
            product: product.shares(),
            floor: floor.shares(),
            written_kib: product.written_kib(),
        }
    }
}

impl Bar {
    /// Creates a bar with nothing beside it.
    pub(crate) fn new(
        name: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        value: Figure,
        aim: Aim,
    ) -> Self {
        Self {
            name,
            what: what.into(),
            unit,
            value,
            baseline: None,
            aim,
            cost: None,
        }
    }

    /// Beside this baseline.
    pub(crate) fn beside(mut self, baseline: Baseline) -> Self {
        self.baseline = Some(baseline);
        self
    }

    /// With what it costs.
    pub(crate) fn at(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Returns true if the aim is met, by the medians.
    ///
    /// # Panics
    /// The aim is a ratio and there is no baseline.
    pub(crate) fn is_met(&self) -> bool {
        let ratio = || {
            self.baseline
                .as_ref()
                .expect("a ratio has a baseline")
                .ratio
                .median
        };
        match self.aim {
            Aim::AtLeast(least) => self.value.median >= least,
            Aim::Under(most) => self.value.median < most,
            Aim::RatioAtLeast(least) => ratio() >= least,
            Aim::RatioUnder(most) => ratio() < most,
        }
    }

    /// For people: one line.
    pub(crate) fn text(&self) -> String {
        let Self {
            what, unit, value, ..
        } = self;
        let met = if self.is_met() { "met    " } else { "NOT MET" };
        let mut text = format!(
            "{met} {what}: {} {unit} ({} to {} in {} rounds)",
            number(value.median),
            number(value.low),
            number(value.high),
            value.rounds
        );
        if let Some(Baseline { name, value, ratio }) = &self.baseline {
            text += &format!("; {name}: {}, ratio {:.2}", number(value.median), ratio.median);
        }
        let aim = match self.aim {
            Aim::AtLeast(least) => format!("at least {} {unit}", number(least)),
            Aim::Under(most) => format!("under {} {unit}", number(most)),
            Aim::RatioAtLeast(least) => format!("a ratio of at least {least}"),
            Aim::RatioUnder(most) => format!("a ratio under {most}"),
        };
        text = text + "; aim: " + &aim;
        if let Some(cost) = &self.cost {
            let list = |shares: &[(&str, f64)]| {
                let shares = shares.iter().map(|(name, us)| format!("{name} {}", number(*us)));
                shares.collect::<Vec<_>>().join(", ")
            };
            let (product, floor) = (list(&cost.product), list(&cost.floor));
            text += &format!(
                "; CPU us per {}: {product}; floor: {floor}; written: {} KiB",
                cost.operation,
                number(cost.written_kib)
            );
        }
        text
    }

    /// For programs: one line.
    pub(crate) fn json(&self) -> String {
        let mut line = Map::new();
        let mut set = |name: &str, value: Value| line.insert(name.to_owned(), value);
        set("bar", json!(self.name));
        set("what", json!(self.what));
        set("unit", json!(self.unit));
        set("value", json!(rounded(self.value.median)));
        set("low", json!(rounded(self.value.low)));
        set("high", json!(rounded(self.value.high)));
        set("rounds", json!(self.value.rounds));
        if let Some(Baseline { name, value, ratio }) = &self.baseline {
            set("baseline", json!(name));
            set("baseline_value", json!(rounded(value.median)));
            set("ratio", json!(rounded(ratio.median)));
            set("ratio_low", json!(rounded(ratio.low)));
            set("ratio_high", json!(rounded(ratio.high)));
        }
        let (of, is, limit) = match self.aim {
            Aim::AtLeast(limit) => ("value", "at least", limit),
            Aim::Under(limit) => ("value", "under", limit),
            Aim::RatioAtLeast(limit) => ("ratio", "at least", limit),
            Aim::RatioUnder(limit) => ("ratio", "under", limit),
        };
        set("aim", json!({ "of": of, "is": is, "limit": limit }));
        set("met", json!(self.is_met()));
        if let Some(cost) = &self.cost {
            let object = |shares: &[(&str, f64)]| {
                let shares = shares
                    .iter()
                    .map(|(name, us)| ((*name).to_owned(), json!(rounded(*us))));
                Value::Object(shares.collect())
            };
            let (product, floor) = (object(&cost.product), object(&cost.floor));
            set(
                "cpu_us",
                json!({ "per": cost.operation, "product": product, "floor": floor }),
            );
            set("written_kib", json!(rounded(cost.written_kib)));
        }
        Value::Object(line).to_string()
    }
}

/// Three or more digits that count, no more than people can read.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => thousands(value.round()),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn rounded(value: f64) -> f64 {
    let scale = 10_f64.powi(4 - value.abs().max(1e-9).log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::{Aim, Bar, Baseline};
    use crate::statistics::Figure;
    use serde_json::{Value, json};

    fn bar(aim: Aim) -> Bar {
        let value = Figure::of([6_000.0, 5_000.0, 7_000.0]);
        Bar::new("rate", "calls", "calls/s", value, aim).beside(Baseline {
            name: "floor",
            value: Figure::of([12_000.0]),
            ratio: Figure::of([0.5]),
        })
    }

    #[test]
    fn an_aim_is_met_by_the_median() {
        assert!(bar(Aim::AtLeast(6_000.0)).is_met());
        assert!(!bar(Aim::AtLeast(6_000.1)).is_met());
        assert!(!bar(Aim::Under(6_000.0)).is_met());
        assert!(bar(Aim::RatioAtLeast(0.5)).is_met());
        assert!(!bar(Aim::RatioUnder(0.5)).is_met());
    }

    #[test]
    fn both_lines_say_the_same() {
        let bar = bar(Aim::RatioAtLeast(0.6));
        assert_eq!(
            bar.text(),
            "NOT MET calls: 6,000 calls/s (5,000 to 7,000 in 3 rounds); floor: 12,000, ratio 0.50; \
             aim: a ratio of at least 0.6"
        );
        let line: Value = serde_json::from_str(&bar.json()).unwrap();
        assert_eq!(line["value"], json!(6_000.0));
        assert_eq!(line["ratio"], json!(0.5));
        assert_eq!(
            line["aim"],
            json!({ "of": "ratio", "is": "at least", "limit": 0.6 })
        );
        assert_eq!(line["met"], json!(false));
    }
}
