//! Many runs: admission, timers, child runs, and requests to people.
//! Does no I/O, reads no clock, draws no random number, waits for nothing, logs nothing: it is `no_std`, and the compiler
//! checks it. Decides nothing about one run: that is the crate `run`.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod counted;
mod inbox;
mod notices;
mod open_requests;
mod runs;
mod sessions;
mod stalls;
mod texts;
mod work;

pub use counted::{Census, Counted, Ending, LIVE_STATES, REQUEST_KINDS, Replan};
pub use inbox::{INBOX_STREAM, InboxChange};
pub use notices::{
    Notice, NoticeKind, NoticeRow, STREAM_BYTES_MAX, notice_of_damaged, stream_of_session, stream_of_user,
};
pub use runs::{Config, Durable, Lost, NotCreated, NotForked, NotHandled, Runs, SNAPSHOT_BYTES_MAX};
pub use sessions::Sessions;
pub use work::{Asked, IndexRow, NewFork, NewRun, RequestRow, RevisionRow, Work};
