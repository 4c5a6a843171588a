//! Records and results written by hand: true ones are retold, and each changed field is found. Starts no process.

mod changed;
mod record;
mod retold;
