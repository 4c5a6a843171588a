//! Waiting for a condition with a limit: the only place in the tests that lets time pass.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::Fault;

/// Asks again and again until the condition gives a value.
///
/// The first question comes at once, the next after 2 ms, then at growing distances up to 50 ms.
///
/// # Errors
/// After `limit`: a text that names `what` was waited for.
pub async fn wait_for<T, F, Answer>(what: &str, limit: Duration, mut condition: F) -> Result<T, Fault>
where
    F: FnMut() -> Answer,
    Answer: Future<Output = Option<T>>,
{
    let end = Instant::now() + limit;
    let mut pause = PAUSE_MIN;
    loop {
        if let Some(value) = condition().await {
            return Ok(value);
        }
        if Instant::now() >= end {
            return Err(format!("waited {limit:?} in vain for {what}").into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Lets time pass that is itself part of a test, such as the length of a partition.
///
/// Not for effects: whoever waits for one uses [`wait_for`].
pub async fn let_pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::wait_for;
    use std::cell::Cell;
    use std::time::Duration;

    #[tokio::test]
    async fn a_condition_is_asked_until_it_holds() {
        let asked = Cell::new(0);
        let answer = wait_for("the third question", Duration::from_secs(1), async || {
            asked.set(asked.get() + 1);
            (asked.get() == 3).then_some("here")
        });
        assert_eq!(answer.await.unwrap(), "here");
        assert_eq!(asked.get(), 3);
    }

    #[tokio::test]
    async fn waiting_ends_at_the_limit_and_says_for_what() {
        let answer = wait_for("rain", Duration::from_millis(70), async || None::<()>).await;
        assert_eq!(answer.unwrap_err().to_string(), "waited 70ms in vain for rain");
    }
}
