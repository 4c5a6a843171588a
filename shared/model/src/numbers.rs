//! Whole numbers in texts, and whether a double has all their digits. Reads no JSON.

use alloc::format;

/// Returns true if a double is exactly this whole number: an optional minus and digits, as JSON has them.
///
/// Everything that travels as a `google.protobuf.Struct` is a double there.
pub fn is_exact(integer: &str) -> bool {
    let digits = integer.strip_prefix('-').unwrap_or(integer);
    if digits.len() <= ALWAYS_EXACT_DIGITS {
        return true;
    }
    if digits.len() > DOUBLE_DIGITS_MAX {
        return false;
    }
    // Without places behind the point, the text of a double has every digit of it.
    let number = integer.parse::<f64>().ok().filter(|number| number.is_finite());
    number.is_some_and(|number| format!("{number:.0}") == integer)
}

/// Digits of which each number is below 2^53.
const ALWAYS_EXACT_DIGITS: usize = 15;
/// Digits of the greatest double.
const DOUBLE_DIGITS_MAX: usize = 309;

#[cfg(test)]
mod tests {
    use super::is_exact;
    use alloc::format;

    #[test]
    fn a_number_is_exact_where_a_double_has_all_its_digits() {
        for exact in [
            "0",
            "-0",
            "999999999999999",
            "9007199254740991",
            "9007199254740992",
            "-9007199254740994",
            "1000000000000000000000",
            "18446744073709551616",
        ] {
            assert!(is_exact(exact), "{exact}");
        }
        for lost in [
            "9007199254740993",
            "-9007199254740993",
            "2512292042121000001",
            "9223372036854775807",
            "18446744073709551615",
            "100000000000000000000000",
        ] {
            assert!(!is_exact(lost), "{lost}");
        }
        assert!(is_exact(&format!("{:.0}", f64::MAX)));
        assert!(!is_exact(&"9".repeat(309)));
        assert!(!is_exact(&"9".repeat(100_000)));
    }
}
