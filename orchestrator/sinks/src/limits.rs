//! How much waits for a sink, and how long.

use std::time::Duration;

/// Bytes of a result that goes out with its event: 1 MiB. The event of a larger one says where it is.
pub(crate) const EVENT_DATA_BYTES_MAX: usize = 1 << 20;
/// Events that a subscriber may lag behind before it loses some.
pub(crate) const SUBSCRIBER_QUEUE_MAX: usize = 1_024;
/// Bytes of these events: 16 MiB, which all subscribers share.
pub(crate) const SUBSCRIBER_QUEUE_BYTES_MAX: usize = 16 << 20;
/// Settled executions that a reader of the feed gets with one read of the store.
pub(crate) const FEED_PAGE: usize = 16;
/// How long a reader of the feed may ask it to stay open without an event, in milliseconds: a day.
pub(crate) const READ_WAIT_MS_MAX: u64 = 86_400_000;
/// How long a reader of the feed hears nothing before a heartbeat comes.
pub(crate) const FEED_HEARTBEAT: Duration = Duration::from_secs(15);
/// Events that wait for the webhook.
pub(crate) const WEBHOOK_QUEUE_MAX: usize = 1_024;
/// Bytes of these events: 16 MiB.
pub(crate) const WEBHOOK_QUEUE_BYTES_MAX: usize = 16 << 20;
/// Time that the webhook has to answer one event.
pub(crate) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Failures that wait for the error handler.
pub(crate) const ERROR_HANDLER_QUEUE_MAX: usize = 1_024;
/// Bytes of these failures: 32 MiB, so that the largest fits.
pub(crate) const ERROR_HANDLER_QUEUE_BYTES_MAX: usize = 32 << 20;
/// Time without a loss after which a sink counts as one that takes events again.
pub(crate) const SINK_CALM: Duration = Duration::from_secs(10);

/// Bytes of lines of the session journal that wait to be written. Further lines are dropped and counted.
pub(crate) const JOURNAL_BYTES_MAX: usize = 64 << 20;
