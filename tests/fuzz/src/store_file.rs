//! The embedded store on files that were damaged: it refuses, or it opens and shows nothing wrong. Repairs nothing.

use crate::scratch::Scratch;
use crate::source::Source;
use escapement_model::ExecutionId;
use escapement_store::{
    Embedded, EmbeddedOptions, ListFilter, Store, StoreFault, StoredExecution, StoredState,
};
use escapement_store_kit::conformance::Sample;
use std::path::Path;

/// The files of a store that was killed: some of it in the database, some in its log.
const FILES: [&str; 3] = ["store.db", "store.db-wal", "store.mark"];

/// Each few bytes damage one place.
pub(crate) fn run(input: &[u8]) {
    thread_local! {
        static TEMPLATE: Template = Template::new();
    }
    TEMPLATE.with(|template| template.run(&mut Source::new(input)));
}

/// A store of a few executions, as bytes, and everything that was ever true of them.
struct Template {
    directory: Scratch,
    files: Vec<Vec<u8>>,
    /// By file: where something stands that names an execution.
    rows: Vec<Vec<usize>>,
    /// By execution: what a reader may show of it, the latest last.
    history: Vec<(ExecutionId, Vec<StoredExecution>)>,
    audits: Vec<Vec<u8>>,
}

impl Template {
    fn new() -> Self {
        let directory = Scratch::new("store-file");
        let mut history = Vec::new();
        let mut audits = Vec::new();
        let samples: Vec<Sample> = (1..=6).map(|seed| Sample::with_record_bytes(seed, 60)).collect();
        let open = || Embedded::open(directory.path(), EmbeddedOptions::default());
        let mut store = open().expect("an empty store opens");
        for (number, sample) in (1..).zip(&samples) {
            store.commit(&[sample.accept()]).expect("a healthy store commits");
            history.push((sample.execution_id(), vec![sample.accepted(number)]));
            audits.push(sample.audit.to_vec());
        }
        // What comes behind this stands in the log.
        drop(store);
        let mut store = open().expect("a healthy store opens");
        for (index, sample) in samples.iter().enumerate() {
            let states = &mut history[index].1;
            let number = states[0].summary.number;
            if index % 3 > 0 {
                store.commit(&[sample.start()]).expect("a healthy store commits");
                states.push(sample.started(number));
            }
            if index % 3 == 2 {
                store
                    .commit(&[sample.settle(1)])
                    .expect("a healthy store commits");
                let before = states.last().expect("it was accepted").clone();
                states.push(sample.settled(before, 1));
            }
        }
        let read = |name: &&str| std::fs::read(directory.path().join(name)).expect("the store has this file");
        let files: Vec<Vec<u8>> = FILES.iter().map(read).collect();
        drop(store);
        let ids: Vec<ExecutionId> = history.iter().map(|(id, _)| *id).collect();
        Self {
            rows: files.iter().map(|file| places_of(&ids, file)).collect(),
            directory,
            files,
            history,
            audits,
        }
    }

    fn run(&self, source: &mut Source<'_>) {
        let mut files = self.files.clone();
        let options = EmbeddedOptions {
            accept_loss: source.once_in(4),
            ..EmbeddedOptions::default()
        };
        let mut has_whole_mark = !options.accept_loss;
        for _ in 0..8 {
            if source.is_empty() {
                break;
            }
            // Mostly the database, then the log.
            let which = [0, 0, 0, 1, 1, 2][source.below(6)];
            damage(&mut files[which], &self.rows[which], source);
            has_whole_mark &= which != 2;
        }
        for (name, bytes) in FILES.iter().zip(&files) {
            std::fs::write(self.directory.path().join(name), bytes).expect("the folder takes files");
        }
        // What SQLite made of the files before must not speak for them now.
        let _ = std::fs::remove_file(self.directory.path().join("store.db-shm"));
        let opened = open_and_look(self.directory.path(), options);
        let Some(seen) = opened else {
            return;
        };
        for (seen, (id, history)) in seen.iter().zip(&self.history) {
            self.judge(seen, *id, history, has_whole_mark);
        }
    }

    fn judge(&self, seen: &Seen, id: ExecutionId, history: &[StoredExecution], has_whole_mark: bool) {
        if let Some(execution) = &seen.execution {
            // Nothing in the file covers the time of a start before the end.
            let mut execution = execution.clone();
            if execution.summary.state == StoredState::Running {
                execution.summary.started_at = history[history.len().min(2) - 1].summary.started_at;
            }
            let execution = &execution;
            let place = history.iter().position(|state| state == execution);
            let place = place.unwrap_or_else(|| panic!("{id} was never like that: {execution:?}"));
            // A store that lost its end without knowing has a mark that knows it.
            assert!(
                !has_whole_mark || place + 1 == history.len(),
                "{id} is shown as it was before: {execution:?}"
            );
        }
        if let Some(audit) = &seen.audit {
            let latest = history.last().expect("it was accepted");
            let number = usize::try_from(latest.summary.number).expect("numbers are small");
            assert_eq!(*audit, self.audits[number - 1], "the record is that of {id}");
            assert!(latest.result.is_some(), "only what is settled has a record");
        }
    }
}

/// What a store showed of one execution; `None` if it refused or has none.
struct Seen {
    execution: Option<StoredExecution>,
    audit: Option<Vec<u8>>,
}

/// Returns everything that a process asks an opened store; `None` if it does not open.
fn open_and_look(directory: &Path, options: EmbeddedOptions) -> Option<Vec<Seen>> {
    let mut store = Embedded::open(directory, options).ok()?;
    let reader = store.reader().ok()?;
    let mut seen = Vec::new();
    for seed in 1..=6 {
        let id = Sample::new(seed).execution_id();
        seen.push(Seen {
            execution: reader.execution(id).ok().flatten(),
            audit: reader.audit(id).ok().flatten().map(|audit| audit.to_vec()),
        });
    }
    let mut after = None;
    for _ in 0..20 {
        match reader.unsettled(after, 3) {
            Ok(page) => match page.last() {
                Some(last) => after = Some(last.summary.number),
                None => break,
            },
            Err(StoreFault::Corrupt { number, .. }) => after = Some(number),
            Err(_) => break,
        }
    }
    let mut before = None;
    for _ in 0..20 {
        match reader.list(&ListFilter::default(), before, 3) {
            Ok(page) => match page.last() {
                Some(last) => before = Some(last.number),
                None => break,
            },
            Err(StoreFault::Corrupt { number, .. }) => before = Some(number),
            Err(_) => break,
        }
    }
    // Counts, and a write, only must not panic.
    let _ = reader.counts();
    let _ = store.commit(&[Sample::new(9).accept(), Sample::new(1).settle(2)]);
    Some(seen)
}

/// One place: a bit, a few bytes, a run of zeros, a piece from elsewhere, or the end.
fn damage(file: &mut Vec<u8>, rows: &[usize], source: &mut Source<'_>) {
    if file.is_empty() {
        return;
    }
    let kind = source.byte();
    let at = if kind >= 128 && !rows.is_empty() {
        // Around a row, where few bytes mean much.
        let row = rows[usize::from(source.byte()) % rows.len()];
        (row + usize::from(source.byte())).saturating_sub(40)
    } else {
        usize::from(source.word()) + (usize::from(source.byte()) << 16)
    };
    let at = at % file.len();
    match kind % 8 {
        0..=2 => file[at] ^= 1 << (source.byte() % 8),
        3 | 4 => file[at] = source.byte(),
        5 => {
            let end = file.len().min(at + 1 + usize::from(source.byte()));
            file[at..end].fill(source.byte());
        }
        6 => {
            let from = usize::from(source.word()) % file.len();
            let length = usize::from(source.byte()).min(file.len() - at.max(from));
            file.copy_within(from..from + length, at);
        }
        _ => file.truncate(at),
    }
}

/// Where the bytes of these ids begin.
fn places_of(ids: &[ExecutionId], file: &[u8]) -> Vec<usize> {
    let is_one = |bytes: &[u8]| ids.iter().any(|id| bytes == id.as_bytes());
    let windows = file.windows(16).enumerate();
    windows
        .filter(|(_, bytes)| is_one(bytes))
        .map(|(at, _)| at)
        .collect()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new(), vec![1]];
    // One damage of each kind, here and there in each file.
    for which in [0, 3, 5] {
        for kind in 0..8 {
            for at in [0, 24, 100, 4096, 4110, 8_200, 20_500] {
                let at = u32::to_le_bytes(at);
                all.push([&[0, which, kind], &at[..3], &[1, 2, 3]].concat());
            }
        }
    }
    // The columns of each row that change.
    for row in 0..12 {
        for at in 0..30 {
            all.push(vec![1, 0, 131, row, 8 * at, 1]);
        }
    }
    all
}
