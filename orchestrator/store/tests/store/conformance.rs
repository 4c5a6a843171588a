//! Both stores pass the suite.

use escapement_store::{Embedded, EmbeddedOptions, Store};
use escapement_store_kit::Memory;
use escapement_store_kit::conformance::{ReopenableStore, run};

use crate::scratch::Scratch;

struct OnDisk {
    directory: Scratch,
    store: Option<Embedded>,
}

impl OnDisk {
    fn open(directory: &Scratch) -> Option<Embedded> {
        Some(Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap())
    }
}

impl ReopenableStore for OnDisk {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Self::open(&self.directory);
    }
}

struct InMemory(Memory);

impl ReopenableStore for InMemory {
    fn store(&mut self) -> &mut dyn Store {
        &mut self.0
    }

    fn reopen(&mut self) {
        self.0 = self.0.disk().crash();
    }
}

#[test]
fn the_embedded_store_conforms() {
    run(&mut || {
        let directory = Scratch::new();
        let store = OnDisk::open(&directory);
        Box::new(OnDisk { directory, store })
    });
}

#[test]
fn the_memory_store_conforms() {
    run(&mut || Box::new(InMemory(Memory::new())));
}
