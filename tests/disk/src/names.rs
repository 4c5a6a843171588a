//! Which name leads to which file, now and after a power cut. Knows nothing of what is in the files.

use std::collections::BTreeMap;

use crate::inode::below;

/// The names of a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    current: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// What became of a name since its directory was synced, in order: the file, or `None` for a deletion.
    pending: Vec<(String, Option<usize>)>,
}

impl Names {
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.current.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, usize)> {
        self.current.iter().map(|(name, file)| (name, *file))
    }

    pub(crate) fn create(&mut self, name: &str, file: usize) {
        self.set(name, Some(file));
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.set(name, None);
    }

    fn set(&mut self, name: &str, file: Option<usize>) {
        put(&mut self.current, name, file);
        self.pending.push((name.to_owned(), file));
    }

    /// Makes the names in one folder durable.
    pub(crate) fn sync(&mut self, folder: &str) {
        let durable = &mut self.durable;
        self.pending.retain(|(name, file)| {
            let inside = folder_of(name) == folder;
            if inside {
                put(durable, name, *file);
            }
            !inside
        });
    }

    /// All names durable as they are.
    pub(crate) fn sync_all(&mut self) {
        self.pending.clear();
        self.durable.clone_from(&self.current);
    }

    /// Of each name's changes, some first ones are durable.
    pub(crate) fn power_cut(&mut self, dice: &mut dyn FnMut(u64) -> u64) {
        let mut changes: BTreeMap<String, Vec<Option<usize>>> = BTreeMap::new();
        for (name, file) in self.pending.drain(..) {
            changes.entry(name).or_default().push(file);
        }
        for (name, files) in changes {
            let kept = below(dice, files.len() + 1);
            if let Some(last) = files[..kept].last() {
                put(&mut self.durable, &name, *last);
            }
        }
        self.current.clone_from(&self.durable);
    }
}

fn put(names: &mut BTreeMap<String, usize>, name: &str, file: Option<usize>) {
    match file {
        Some(file) => names.insert(name.to_owned(), file),
        None => names.remove(name),
    };
}

/// What stands before the last part of a name.
pub(crate) fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}
