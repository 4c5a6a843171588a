//! What the binary does beside serving: `backup`, `restore`, `check` and `drop` of a store, `export` and `verify` of records, `render`.
//! Starts no engine and opens no port.

mod export;
mod render;
mod verify;

use crate::clock::unix_ms;
use crate::config::{Config, NoConfig};
use crate::exit::Failure;
use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand};
use escapement_process::settings;
use escapement_store::embedded::{
    BackedUp, Examination, Examiner, Finding, GivenUp, RestoreOptions, Restored, back_up, restore,
};
use escapement_store::{Embedded, EmbeddedOptions, StoreFault};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Executes plans durably and hands their steps to workers.
///
/// Without a command it serves; every flag can also be given as the environment variable beside it; the flag wins.
/// Once it serves, one line of JSON stands on stdout: {"event":"serving","address":"HOST:PORT"}.
/// SIGTERM, SIGINT or SIGHUP drains it; a second one ends it at once.
///
/// Exit codes, of the commands as well: 0 drained or done; 64 bad configuration; 65 input that cannot be drawn;
/// 69 address not to be had; 70 defect; 73 directory, lock or file not usable, or no space at a start; 74 store, backup
/// or record damaged, or store not writable any more; 75 stopped before everything that ran had ended; 1 anything else.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "orchestrator",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    /// What to do instead of serving.
    #[command(subcommand)]
    command: Option<Command>,
    /// How to serve.
    #[command(flatten)]
    config: Config,
}

/// What the process is to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// Serve until a signal asks for the end.
    Serve(Box<Config>),
    /// Something else, and end.
    Command(Command),
}

impl Task {
    /// Reads the arguments and the environment of this process.
    ///
    /// # Errors
    /// [`NoConfig`] if they are wrong, or help was asked for.
    pub fn from_arguments() -> Result<Self, NoConfig> {
        Self::from_iterator(std::env::args_os())
    }

    /// Reads these arguments, the program's name first, and the environment of this process.
    ///
    /// # Errors
    /// As [`Task::from_arguments`].
    pub fn from_iterator(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, NoConfig> {
        let (arguments, given) =
            settings::parse::<Arguments>(arguments).map_err(|error| NoConfig::Arguments(Box::new(error)))?;
        match arguments.command {
            Some(command) => Ok(Task::Command(command)),
            None => Ok(Task::Serve(Box::new(arguments.config.checked(given)?))),
        }
    }
}

/// What can be done without serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Copies the store into one file, also while an orchestrator runs on it.
    ///
    /// The file holds everything that was acknowledged before the call, of one moment. It is checked as `check` does
    /// and synced before it gets its name; an existing file is never overwritten. Calls go on meanwhile; the
    /// write-ahead log grows until the copy is made, so have as much space free as arrives in that time.
    ///
    /// Stdout: a line of JSON for each damaged execution, and a last line with the event "backed_up".
    ///
    /// Exit codes: 0 the file is there; 73 it exists already, cannot be written, or there is no store; 74 the store is
    /// damaged.
    Backup(Backup),
    /// Makes a store of a backup, in a directory that holds none.
    ///
    /// What was acknowledged after the backup is not in it, and nothing can tell: its ids can be used again. Executions
    /// that were queued at the time of the backup may have run since, and their callers may have seen the results.
    /// So the next start settles them as failures with the reason restored_from_backup, and everything that was running
    /// as failures with the reason orchestrator_restarted: nothing that has run once runs again by surprise. With
    /// --run-queued they stay queued and run; use it if the orchestrator had stopped before the backup was made.
    ///
    /// A restore that does not come through leaves a directory `restoring` behind; no orchestrator starts there until
    /// it is repeated, or that directory is removed.
    ///
    /// Stdout: a line of JSON for each damaged execution, and a last line with the event "restored".
    ///
    /// Exit codes: 0 restored; 73 the directory holds a store, or a file cannot be used; 74 the backup is damaged, or
    /// is none.
    Restore(Restore),
    /// Looks through a store for damage, also while an orchestrator runs on it; changes nothing. It needs no right to
    /// write.
    ///
    /// Every record is read and compared with its checksum, every index with its table, all numbers are counted, and
    /// SQLite checks the structure of the file.
    ///
    /// With --repair it first makes anew what the tables themselves say, which are all indexes and the counts by state;
    /// no record is touched. No orchestrator may run then. Damaged executions stay: `drop` gives one up.
    ///
    /// Stdout: a line of JSON for each repair, each damaged execution and each other damage, and a last line with the
    /// event "checked".
    ///
    /// Exit codes: 0 clean; 73 there is no store that can be read, or an orchestrator runs; 74 damaged.
    Check(Check),
    /// Gives up one damaged execution of a store, on which no orchestrator runs: what is left of it is removed for good.
    ///
    /// Its ids stay used if they can be read. What is whole is never dropped.
    ///
    /// Stdout: one line of JSON with the event "dropped".
    ///
    /// Exit codes: 0 it is gone; 73 it is whole or not there, there is no store, or an orchestrator runs; 74 the store is
    /// damaged beyond it.
    Drop(DropFlags),
    /// Writes everything that is recorded of one settled execution into a file, also while an orchestrator runs.
    ///
    /// The file is what ExportExecution streams; `verify` checks it. An existing file is never overwritten. With --all,
    /// each settled execution goes into a file of its own, named by its id, in a directory; damaged ones are told and
    /// passed over, and damaged indexes do not matter.
    ///
    /// Stdout: one line of JSON with the event "exported" for each file; with --all also one with the event
    /// "not_exported" for each execution that is damaged or not settled, and a last line with the event "exported_all".
    ///
    /// Exit codes: 0 the files are there; 73 there is no such execution, it is not settled, or a file cannot be used;
    /// 74 a record is damaged.
    Export(export::Export),
    /// Checks record files and replays them: no store, no orchestrator and no worker is needed.
    ///
    /// The digest of the file and of the request, the hash of each entry, the seal; then the recorded inputs are fed to
    /// the contract core again, and entries, decisions and result are compared byte for byte.
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
}

/// Flags of `backup`.
#[derive(Args, Clone, Debug)]
pub struct Backup {
    #[command(flatten)]
    store: StorePath,
    /// The file to make.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Keep the copy although executions in it are damaged.
    #[arg(long, value_parser = BoolishValueParser::new())]
    accept_damage: bool,
}

/// Flags of `restore`.
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// The backup.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    #[command(flatten)]
    store: StorePath,
    /// Leave queued what was queued at the time of the backup; what has run since then runs once more.
    #[arg(long, value_parser = BoolishValueParser::new())]
    run_queued: bool,
    /// Restore although executions in the backup are damaged.
    #[arg(long, value_parser = BoolishValueParser::new())]
    accept_damage: bool,
}

/// Flags of `check`.
#[derive(Args, Clone, Debug)]
pub struct Check {
    #[command(flatten)]
    store: StorePath,
    /// Make indexes and counts anew first.
    #[arg(long, value_parser = BoolishValueParser::new())]
    repair: bool,
}

/// Flags of `drop`.
#[derive(Args, Clone, Debug)]
pub struct DropFlags {
    #[command(flatten)]
    store: StorePath,
    /// The execution's number, as `check` says it.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    number: u64,
}

/// Where the store is.
#[derive(Args, Clone, Debug)]
struct StorePath {
    /// Directory of the store.
    #[arg(
        long = "store-path",
        env = "ESCAPEMENT_STORE_PATH",
        value_name = "DIRECTORY",
        default_value = "./escapement-data"
    )]
    directory: PathBuf,
}

/// Does it, and says on stdout what came of it.
///
/// # Errors
/// [`Failure`]: what could not be done, or that there is damage.
pub fn run_command(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Backup(backup) => run_backup(backup),
        Command::Restore(restore) => run_restore(restore),
        Command::Check(check) => run_check(check),
        Command::Drop(flags) => run_drop(flags),
        Command::Export(flags) => export::run(flags),
        Command::Verify(flags) => verify::run(flags),
        Command::Render(flags) => render::run(flags),
    }
}

fn run_backup(flags: &Backup) -> Result<(), Failure> {
    let failed = undone("backup is not made");
    let directory = &flags.store.directory;
    let BackedUp {
        examination,
        n_bytes,
        is_kept,
    } = back_up(directory, &flags.to, flags.accept_damage, &mut tell).map_err(failed)?;
    say(&with_counts(
        json!({
            "event": "backed_up",
            "file": flags.to.to_string_lossy(),
            "kept": is_kept,
            "bytes": n_bytes,
        }),
        &examination,
    ));
    judged(&examination, is_kept)
}

fn run_restore(flags: &Restore) -> Result<(), Failure> {
    let failed = undone("store is not restored");
    let directory = &flags.store.directory;
    let options = RestoreOptions {
        run_queued: flags.run_queued,
        accept_damage: flags.accept_damage,
    };
    let Restored {
        examination,
        n_withheld,
        is_kept,
    } = restore(&flags.from, directory, options, &mut tell).map_err(failed)?;
    say(&with_counts(
        json!({
            "event": "restored",
            "store_path": directory.to_string_lossy(),
            "kept": is_kept,
            "queued_withheld": n_withheld,
        }),
        &examination,
    ));
    judged(&examination, is_kept)
}

fn run_check(flags: &Check) -> Result<(), Failure> {
    let failed = undone("store cannot be checked");
    if flags.repair {
        let store = open_existing(&flags.store.directory, true).map_err(undone("store is not repaired"))?;
        for repaired in &store.opening().repaired {
            say(&json!({"event": "repaired", "said": repaired}));
        }
    }
    let mut examiner = Examiner::open(&flags.store.directory).map_err(&failed)?;
    let mut examination = examiner.examine_all(&mut tell).map_err(&failed)?;
    for finding in examiner.structure().map_err(&failed)? {
        examination.count(&finding);
        tell(&finding);
    }
    say(&with_counts(json!({"event": "checked"}), &examination));
    judged(&examination, false)
}

fn run_drop(flags: &DropFlags) -> Result<(), Failure> {
    let number = flags.number;
    let failed = undone("execution is not dropped");
    let mut store = open_existing(&flags.store.directory, false).map_err(&failed)?;
    let not_dropped = |why| Err(Failure::NotDropped { number, why });
    let execution_id = match store.give_up(number, unix_ms()).map_err(&failed)? {
        GivenUp::Done { execution_id } => execution_id,
        GivenUp::Whole => return not_dropped("it is whole"),
        GivenUp::Missing => return not_dropped("it is not in the store"),
    };
    say(&json!({
        "event": "dropped",
        "number": number,
        "execution_id": execution_id.map(|id| id.to_string()),
        "ids_stay_used": execution_id.is_some(),
    }));
    Ok(())
}

/// Opens a store as an orchestrator does; makes none if there is none.
fn open_existing(directory: &Path, repair: bool) -> Result<Embedded, StoreFault> {
    let options = EmbeddedOptions {
        repair,
        must_exist: true,
        ..EmbeddedOptions::default()
    };
    Embedded::open(directory, options)
}

fn undone(what: &'static str) -> impl Fn(StoreFault) -> Failure {
    move |source| Failure::Command { what, source }
}

/// Damage is a failure unless the operator accepted it.
fn judged(examination: &Examination, is_accepted: bool) -> Result<(), Failure> {
    if examination.is_clean() || is_accepted {
        return Ok(());
    }
    Err(Failure::Damaged {
        n_damaged: examination.n_damaged,
        n_store_findings: examination.n_store_findings,
    })
}

fn with_counts(mut line: Value, examination: &Examination) -> Value {
    line["executions"] = examination.n_executions.into();
    line["removed"] = examination.n_removed.into();
    line["damaged"] = examination.n_damaged.into();
    line["store_findings"] = examination.n_store_findings.into();
    line
}

fn tell(finding: &Finding) {
    say(&match finding {
        Finding::Execution {
            number,
            execution_id,
            parts,
        } => json!({
            "event": "damaged",
            "number": number,
            "execution_id": execution_id.map(|id| id.to_string()),
            "parts": parts,
        }),
        Finding::Removed { number } => json!({
            "event": "damaged",
            "number": number,
            "execution_id": null,
            "parts": ["row of a removed execution"],
        }),
        Finding::Store(said) => json!({"event": "store_damaged", "said": said}),
    });
}

/// The bytes of a file; `None` if it is larger. `-` is stdin.
fn read_at_most(path: &Path, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let input: &mut dyn Read = if path == Path::new("-") {
        &mut std::io::stdin().lock()
    } else {
        &mut File::open(path)?
    };
    let mut bytes = Vec::new();
    input.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    // The reader has closed stdout and does not want to know.
    let _closed = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
