//! Commands of the orchestrator's binary other than serving: `backup`, `restore`, `check`, `drop` and `convert` of a store, `export` and
//! `verify` of records, `render`, `token`, `health`; and the look through the store in the background. Starts no engine and opens no port.

#![warn(clippy::too_many_lines)]

mod check;
mod convert;
mod copies;
mod drop;
mod export;
mod render;
mod run_scene;
mod token;
mod verify;

pub mod exit;
mod failure;
mod hold_back;
mod place;
mod said;
pub mod scrub;

use clap::Subcommand;
use escapement_process::probe::Probe;

pub use failure::Failure;

/// What can be done without serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Copies the store into one file, also while an orchestrator runs on it.
    ///
    /// The file holds everything that was acknowledged before the call, executions and runs of one moment. It is checked as
    /// `check` does and synced before it gets its name; an existing file is never overwritten. Calls go on meanwhile; the
    /// write-ahead log grows until the copy is made, so have as much space free as arrives in that time.
    ///
    /// Stdout: a line of JSON for each damaged execution or run, and a last line with the event "backed_up".
    ///
    /// Exit codes: 0 the file is there; 73 it exists already, cannot be written, or there is no store; 74 the store is
    /// damaged.
    Backup(copies::Backup),
    /// Makes a store of a backup, in a directory that holds none. It reads the backups of earlier versions, too.
    ///
    /// What was acknowledged after the backup is not in it, and nothing can tell: its ids can be used again. Executions
    /// that were queued at the time of the backup may have run since, and their callers may have seen the results.
    /// So the next start settles them as failures with the reason restored_from_backup, and everything that was running
    /// as failures with the reason orchestrator_restarted: nothing that has run once runs again by surprise. With
    /// --run-queued they stay queued and run; use it if the orchestrator had stopped before the backup was made.
    ///
    /// Runs that had not ended are paused for the same reason, and what they had under way that the backup does not know
    /// is in doubt: look at each, then resume or cancel it. With --run-queued they go on by themselves.
    ///
    /// A restore that does not come through leaves a directory `restoring` behind; no orchestrator starts there until
    /// it is repeated, or that directory is removed.
    ///
    /// Stdout: a line of JSON for each damaged execution or run, and a last line with the event "restored".
    ///
    /// Exit codes: 0 restored; 73 the directory holds a store, or a file cannot be used; 74 the backup is damaged, or
    /// is none.
    Restore(copies::Restore),
    /// Looks through a store for damage, also while an orchestrator runs on it; changes nothing. It needs no right to
    /// write.
    ///
    /// Every record of executions and of runs is read and compared with its checksum, every index with its table, all
    /// numbers are counted, the journals' hashes are computed again, and SQLite checks the structure of the files.
    ///
    /// With --repair it first makes anew what the tables themselves say, which are all indexes and the counts by state;
    /// no record is touched. No orchestrator may run then. Damaged executions stay: `drop` gives one up.
    ///
    /// Stdout: a line of JSON for each repair, each damaged execution or run and each other damage, and a last line with
    /// the event "checked".
    ///
    /// Exit codes: 0 clean; 73 there is no store that can be read, or an orchestrator runs; 74 damaged.
    Check(check::Check),
    /// Makes a store of the files of an earlier version, which had executions and runs in two databases. A start does the same;
    /// with this command it can be done, or tried, ahead.
    ///
    /// Every row is copied as it is and compared with the old one, so have as much space free as the old files take. What was
    /// damaged stays damaged, and `check` finds it. The old files are moved to `before-store` in the same directory; remove them
    /// once you are sure. No orchestrator may run on the store.
    ///
    /// Stdout: one line of JSON with the event "converted" or, with --check, "convertible", or "nothing_to_convert".
    ///
    /// Exit codes: 0 done; 73 an orchestrator runs, the disk is full, or the files of another conversion are there; 74 a
    /// database cannot be read, or something that was acknowledged is missing there.
    Convert(convert::Convert),
    /// Gives up one damaged execution or run of a store, on which no orchestrator runs: what is left of it is removed for good.
    ///
    /// Its ids stay used if they can be read. What is whole is never dropped.
    ///
    /// Stdout: one line of JSON with the event "dropped" or "run_dropped".
    ///
    /// Exit codes: 0 it is gone; 73 it is whole or not there, there is no store, or an orchestrator runs; 74 the store is
    /// damaged beyond it.
    Drop(drop::Drop),
    /// Writes everything that is recorded of one settled execution, or of one run, into a file, also while an orchestrator
    /// runs.
    ///
    /// The file is what ExportExecution or ExportRun streams; `verify` checks it. An existing file is never overwritten.
    /// With --all, each settled execution goes into a file of its own, named by its id, in a directory, and each run into
    /// one that is named `run-` and its id. Damaged ones are told and passed over; damaged indexes of executions do not
    /// matter, those of runs are made anew by `check --repair`.
    ///
    /// Stdout: one line of JSON with the event "exported" for each file; with --all also one with the event
    /// "not_exported" for each execution or run that is damaged, and each execution that is not settled, and a last line
    /// with the event "exported_all".
    ///
    /// Exit codes: 0 the files are there; 73 there is no such execution or run, it is not settled, or a file cannot be
    /// used; 74 a record is damaged.
    Export(export::Export),
    /// Checks record files and replays them: no store, no orchestrator and no worker is needed.
    ///
    /// The digest of the file and of the request, the hash of each entry, the seal; then the recorded inputs are fed to
    /// the contract core again, and entries, decisions and result are compared byte for byte. Of a run, the hash of each
    /// entry and of each content that it refers to; then the law of runs decides it again, and its entries are compared.
    ///
    /// Stdout: a line of JSON for each difference and each file that cannot be read, and a last line with the event
    /// "verified".
    ///
    /// Exit codes: 0 everything is as it was recorded; 73 a file cannot be read or is no record; 74 a record is not as
    /// it was written, or does not replay, or an earlier version wrote it, which recorded nothing to check it by.
    Verify(verify::Verify),
    /// Draws a plan, or an execution of one: how the steps depend on each other, and what they did when.
    ///
    /// INPUT is a plan document, a request with a plan, an exported record (the file or the JSON of ExportExecution),
    /// the JSON of a SimulatePlanResponse (with --plan also its graph), or the JSON of a ListAuditEntriesResponse
    /// with --plan. A plan that breaks rules is not drawn: they are said.
    ///
    /// Exit codes: 0 drawn; 64 wrong flags; 65 the input cannot be drawn; 73 a file cannot be used.
    Render(render::Flags),
    /// Makes static tokens for the policy of --access-policy, and says what the policy holds of one.
    ///
    /// Stdout: one line of JSON with the event "token_made", which holds the token itself and is the only place where it
    /// ever stands, or "token_hashed".
    ///
    /// Exit codes: 0 done; 64 wrong flags; 65 what stands on stdin is no token; 73 stdin cannot be read.
    Token(token::Token),
    /// Asks an orchestrator on this machine whether calls should be sent to it, for images that have no shell and no curl.
    ///
    /// It asks /readyz of the address that --metrics-listen gave the orchestrator, for six seconds at most.
    ///
    /// Exit codes: 0 it is ready; 1 it is not, or does not answer; 64 wrong flags.
    Health(Probe),
}

/// Does it, and says on stdout what came of it.
///
/// # Errors
/// [`Failure`]: what could not be done, or that there is damage.
pub fn run_command(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Backup(flags) => copies::back_up_store(flags),
        Command::Restore(flags) => copies::restore_store(flags),
        Command::Check(flags) => check::run(flags),
        Command::Convert(flags) => convert::run(flags),
        Command::Drop(flags) => drop::run(flags),
        Command::Export(flags) => export::run(flags),
        Command::Verify(flags) => verify::run(flags),
        Command::Render(flags) => render::run(flags),
        Command::Token(flags) => token::run(flags),
        Command::Health(probe) => probe.run().map_err(Failure::NotReady),
    }
}
