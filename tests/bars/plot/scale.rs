//! Where a value stands on an axis, and which values are written beside it. Draws nothing.

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal distances for equal differences, from zero on.
    Linear,
    /// Equal distances for equal ratios; nothing at or below zero has a place.
    Logarithmic,
    /// For percentiles: each further nine takes as much room as the one before.
    Nines,
}

/// An axis from one value to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Span {
    /// The axis that ends at the outermost values.
    ///
    /// # Panics
    /// No value has a place.
    pub(super) fn tight(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|value| scale.has_place_for(*value)) {
            from = from.min(value);
            to = to.max(value);
        }
        assert!(from.is_finite() && to.is_finite(), "an axis has values");
        Self { scale, from, to }
    }

    /// The axis that ends at round values outside of these.
    ///
    /// # Panics
    /// No value has a place.
    pub(super) fn round(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let tight = Self::tight(scale, values);
        match scale {
            Scale::Linear => {
                let step = step_below(tight.to, TICKS_MAX);
                let to = (tight.to / step).ceil() * step;
                Self {
                    from: 0.0,
                    to,
                    ..tight
                }
            }
            Scale::Logarithmic => {
                let from = last_round(tight.from);
                let to = first_round(tight.to);
                // One value alone gets a place in the middle.
                let (from, to) = if from < to {
                    (from, to)
                } else {
                    (from / 2.0, to * 2.0)
                };
                Self { from, to, ..tight }
            }
            Scale::Nines => tight,
        }
    }

    /// From 0 at the beginning to 1 at the end; nothing for a value without a place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !self.scale.has_place_for(value) {
            return None;
        }
        let [from, to, value] = [self.from, self.to, value].map(|value| self.scale.stretched(value));
        Some(if to > from {
            (value - from) / (to - from)
        } else {
            0.5
        })
    }

    /// Round values from the beginning to the end, few enough to be read.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step_below(self.to, TICKS_MAX);
                let count = (self.to / step).round() as usize;
                (0..=count).map(|index| index as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let every = self.digits(&[1.0, 2.0, 5.0]);
                if every.len() <= TICKS_MAX {
                    every
                } else {
                    self.digits(&[1.0])
                }
            }
            Scale::Nines => vec![self.from, self.to],
        }
    }

    fn digits(&self, digits: &[f64]) -> Vec<f64> {
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let all =
            (first..=last).flat_map(|power| digits.iter().map(move |digit| digit * power_of_ten(power)));
        let slack = 1e-9;
        all.filter(|value| *value >= self.from * (1.0 - slack) && *value <= self.to * (1.0 + slack))
            .collect()
    }
}

impl Scale {
    fn has_place_for(self, value: f64) -> bool {
        match self {
            Self::Linear => value.is_finite(),
            Self::Logarithmic => value.is_finite() && value > 0.0,
            Self::Nines => (0.0..100.0).contains(&value),
        }
    }

    fn stretched(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.log10(),
            Self::Nines => -(1.0 - value / 100.0).log10(),
        }
    }
}

/// A value as it stands beside an axis.
pub(super) fn tick_label(value: f64) -> String {
    // Three decimals are enough for the smallest of a millisecond.
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = text
        .split_once('.')
        .map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

/// The smallest of 1, 2 and 5 times a power of ten that reaches `to` in so many steps.
fn step_below(to: f64, steps_max: usize) -> f64 {
    if to <= 0.0 {
        return 1.0;
    }
    first_round(to / steps_max as f64)
}

/// The first of 1, 2 and 5 times a power of ten that is not below the value.
fn first_round(value: f64) -> f64 {
    let power = value.log10().floor() as i32;
    let candidates = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power_of_ten(power));
    let fits = candidates
        .into_iter()
        .find(|round| *round >= value * (1.0 - 1e-9));
    fits.unwrap_or(candidates[3])
}

/// The last of them that is not above the value.
fn last_round(value: f64) -> f64 {
    let power = value.log10().floor() as i32;
    let candidates = [10.0, 5.0, 2.0, 1.0].map(|digit| digit * power_of_ten(power));
    let fits = candidates
        .into_iter()
        .find(|round| *round <= value * (1.0 + 1e-9));
    fits.unwrap_or(candidates[3])
}

/// Divided for negative powers, so that the result is the double nearest to the decimal number.
fn power_of_ten(power: i32) -> f64 {
    if power < 0 {
        1.0 / 10_f64.powi(-power)
    } else {
        10_f64.powi(power)
    }
}

const TICKS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::{Scale, Span, tick_label};

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_value_above_the_last() {
        let span = Span::round(Scale::Linear, [6_812.0, 312.0]);
        assert_eq!(
            span.ticks(),
            (0..=7).map(|n| f64::from(n) * 1_000.0).collect::<Vec<_>>()
        );
        assert_eq!(span.place(3_500.0), Some(0.5));
    }

    #[test]
    fn a_short_logarithmic_axis_names_one_two_and_five() {
        let span = Span::round(Scale::Logarithmic, [0.3, 7.0]);
        assert_eq!(span.ticks(), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(span.place(0.2), Some(0.0));
        assert_eq!(span.place(10.0), Some(1.0));
        assert_eq!(span.place(0.0), None);
    }

    #[test]
    fn a_long_logarithmic_axis_names_powers_of_ten() {
        let span = Span::round(Scale::Logarithmic, [1.0, 100_000.0]);
        assert_eq!(span.ticks(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
        assert_eq!(span.place(1_000.0), Some(0.6));
    }

    #[test]
    fn one_value_alone_stands_in_the_middle() {
        for scale in [Scale::Linear, Scale::Logarithmic, Scale::Nines] {
            assert_eq!(Span::tight(scale, [50.0]).place(50.0), Some(0.5));
        }
        assert!((Span::round(Scale::Logarithmic, [50.0]).place(50.0).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn each_further_nine_takes_as_much_room_as_the_one_before() {
        let span = Span::tight(Scale::Nines, [90.0, 99.9]);
        assert!((span.place(99.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(span.place(100.0), None);
    }

    #[test]
    fn labels_are_short_and_exact() {
        let labels = [0.0, 0.2, 0.005, 2.5, 99.9, 1_000.0, 100_000.0].map(tick_label);
        assert_eq!(labels, ["0", "0.2", "0.005", "2.5", "99.9", "1,000", "100,000"]);
    }
}
