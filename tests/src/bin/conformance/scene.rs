//! What one check has of the whole run: the command, a file for output, and where findings go. Judges nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use escapement_tests::{Fault, PrivateDirectory};
use tokio::sync::watch;

use crate::audit::Finding;

/// A check's part in the run.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    world: Arc<World>,
    check: &'static str,
    start_fault: Arc<watch::Sender<Option<String>>>,
}

/// What all checks share.
#[derive(Debug)]
pub(crate) struct World {
    command: Vec<OsString>,
    directory: PrivateDirectory,
    audited: Mutex<Audited>,
    called: AtomicBool,
}

/// What the audit of all streams gave.
#[derive(Debug, Default)]
pub(crate) struct Audited {
    /// Number of streams that were looked at.
    pub(crate) n_streams: usize,
    /// Each with the check in which it was found.
    pub(crate) findings: Vec<(&'static str, Finding)>,
}

impl World {
    /// For workers that this command starts.
    pub(crate) fn new(command: Vec<OsString>) -> Result<Arc<Self>, Fault> {
        let directory = PrivateDirectory::new("conformance")?;
        let audited = Mutex::default();
        Ok(Arc::new(Self {
            command,
            directory,
            audited,
            called: AtomicBool::new(false),
        }))
    }

    /// What the audit gave so far; the next call begins anew.
    pub(crate) fn take_audited(&self) -> Audited {
        std::mem::take(&mut *self.audited.lock().expect("nobody panics while holding it"))
    }

    /// Returns true if any worker of this run has called `Session`.
    pub(crate) fn was_called(&self) -> bool {
        self.called.load(Ordering::SeqCst)
    }

    /// Where the workers of a check write to.
    pub(crate) fn output_of(&self, check: &str) -> PathBuf {
        self.directory.join(format!("{check}.output"))
    }
}

impl Scene {
    pub(crate) fn new(world: &Arc<World>, check: &'static str) -> Self {
        let world = Arc::clone(world);
        Self {
            world,
            check,
            start_fault: Arc::default(),
        }
    }

    /// A worker has called `Session`.
    pub(crate) fn called(&self) {
        self.world.called.store(true, Ordering::SeqCst);
    }

    /// A worker cannot be started, or ended by itself before it called `Session`: the check is over.
    pub(crate) fn never_started(&self, fault: String) {
        self.start_fault.send_replace(Some(fault));
    }

    /// Returns the reason why a worker of this check never started, where one did not.
    pub(crate) fn start_fault(&self) -> Option<String> {
        self.start_fault.borrow().clone()
    }

    /// Waits until there is a start fault.
    pub(crate) async fn start_fails(&self) {
        let mut faults = self.start_fault.subscribe();
        let failed = faults.wait_for(Option::is_some).await;
        drop(failed.expect("the scene holds the sender itself"));
    }

    /// Starts a worker.
    pub(crate) fn command(&self) -> &[OsString] {
        &self.world.command
    }

    /// Where its workers write to.
    pub(crate) fn output(&self) -> PathBuf {
        self.world.output_of(self.check)
    }

    /// Keeps what the audit of so many streams found.
    pub(crate) fn report(&self, n_streams: usize, findings: Vec<Finding>) {
        let mut audited = self.world.audited.lock().expect("nobody panics while holding it");
        audited.n_streams += n_streams;
        audited
            .findings
            .extend(findings.into_iter().map(|finding| (self.check, finding)));
    }
}
