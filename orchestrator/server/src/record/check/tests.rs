#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
