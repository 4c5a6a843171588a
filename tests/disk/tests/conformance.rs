//! The embedded store on the disk in memory keeps the promises of every store. Nothing fails here.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use escapement_store::{Checkpointing, Embedded, EmbeddedOptions, Store};
use escapement_store_kit::conformance::{ReopenableStore, run};
use escapement_test_disk::Disk;

struct OnDisk {
    disk: Disk,
    checkpointing: Checkpointing,
    store: Option<Embedded>,
}

impl OnDisk {
    fn boxed(checkpointing: Checkpointing) -> Box<dyn ReopenableStore> {
        let mut store = Self {
            disk: Disk::new(),
            checkpointing,
            store: None,
        };
        store.reopen();
        Box::new(store)
    }
}

impl ReopenableStore for OnDisk {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        self.store = None;
        let options = EmbeddedOptions {
            files: Some(self.disk.files()),
            checkpointing: self.checkpointing,
            ..EmbeddedOptions::default()
        };
        self.store = Some(Embedded::open(&self.disk.directory(), options).unwrap());
    }
}

#[test]
fn the_store_on_the_disk_conforms() {
    run(&mut || OnDisk::boxed(Checkpointing::Inline { pages_due: 16 }));
}

#[test]
fn the_store_on_the_disk_conforms_with_its_thread() {
    run(&mut || OnDisk::boxed(Checkpointing::Thread));
}
