#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says where its assumption broke"
)]

mod deaf;
mod good;
mod recorded;
mod script;
mod violations;
