//! Records and results written by hand. Starts no process.
