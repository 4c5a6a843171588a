#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::parse_ratio;

#[test]
fn a_ratio_is_a_part_of_one() {
    for right in ["0", "0.1", "1"] {
        parse_ratio(right).unwrap();
    }
    for wrong in ["", "-0.1", "1.1", "NaN", "inf", "always_on"] {
        parse_ratio(wrong).unwrap_err();
    }
}
