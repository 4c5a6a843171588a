//! The delay before a retry: a pure leaf. Draws no jitter.

/// Returns the milliseconds before retry `n` (1 for the first): `min(backoff * multiplier^(n-1), max)`, saturating.
pub(crate) fn delay_ms(backoff_ms: u64, multiplier: f64, max_backoff_ms: u64, n: u32) -> u64 {
    assert!(n >= 1, "retries are counted from 1");
    //
    if backoff_ms == 0 || backoff_ms >= max_backoff_ms {
        return backoff_ms.min(max_backoff_ms);
    }
    if multiplier == 1.0 {
        return backoff_ms;
    }
    // A cast from float to integer saturates, infinity included.
    let delay = (backoff_ms as f64 * power(multiplier, n - 1)) as u64;
    delay.min(max_backoff_ms)
}

/// By squaring, so that the cost grows with the digits of the exponent only. Overflows to infinity.
fn power(base: f64, exponent: u32) -> f64 {
    let mut result = 1.0;
    let mut square = base;
    let mut rest = exponent;
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}
