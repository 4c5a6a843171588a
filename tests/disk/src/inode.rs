//! A file: what reads show, what is durable, and the changes between the two. Knows no name.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that a disk writes whole or not at all, tears excepted.
const SECTOR: usize = 512;
/// Changes at which the older half is written back, as a kernel does with time.
const PENDING_MAX: usize = 4096;

/// A change of the page cache that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    /// What reads show.
    current: Vec<u8>,
    /// What survives a power cut for certain.
    durable: Vec<u8>,
    /// In the order of the calls.
    pending: Vec<Change>,
}

/// How a power cut treats what is pending in one file.
enum Mood {
    /// Each sector anew.
    Mixed,
    /// What came first is there, in order.
    Prefix,
    /// Most sectors are there.
    Late,
    /// Few sectors are there.
    Early,
}

impl Inode {
    pub(crate) fn with_content(bytes: &[u8]) -> Self {
        Self {
            current: bytes.to_vec(),
            durable: bytes.to_vec(),
            pending: Vec::new(),
        }
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.current
    }

    pub(crate) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(crate) fn length(&self) -> usize {
        self.current.len()
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.change(Change::Truncate { length });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.pending.push(change);
        if self.pending.len() >= PENDING_MAX {
            for change in self.pending.drain(..PENDING_MAX / 2) {
                change.apply(&mut self.durable);
            }
        }
    }

    pub(crate) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Every other sector is durable, the rest is forgotten as clean although it is not.
    pub(crate) fn sync_fails(&mut self) {
        let mut n_sectors = 0;
        self.settle(&mut |_, n_changes| {
            n_sectors += 1;
            if n_sectors % 2 == 0 {
                (n_changes, None)
            } else {
                (0, None)
            }
        });
        self.durable.truncate(self.current.len());
    }

    /// Reads show the disk again, and what is still to be written there.
    pub(crate) fn drop_page_cache(&mut self) {
        self.current.clone_from(&self.durable);
        for change in &self.pending {
            change.apply(&mut self.current);
        }
    }

    /// Flips one bit on the disk and in the page cache; false if the file is not that long.
    pub(crate) fn flip(&mut self, byte: usize, bit: u32) -> bool {
        self.sync();
        let mask = 1 << (bit % 8);
        let found = self.current.get_mut(byte).map(|found| *found ^= mask).is_some();
        if let Some(found) = self.durable.get_mut(byte) {
            *found ^= mask;
        }
        found
    }

    pub(crate) fn power_cut(&mut self, dice: &mut dyn FnMut(u64) -> u64) {
        if self.pending.is_empty() {
            self.current.clone_from(&self.durable);
            return;
        }
        self.settle_truncations(dice);
        let length = self.length_after_cut(dice);
        match mood(dice) {
            Mood::Prefix => {
                let kept = below(dice, self.pending.len() + 1);
                for change in self.pending.drain(..kept) {
                    change.apply(&mut self.durable);
                }
                // The one after them is torn; the others are lost.
                self.pending.truncate(1);
                self.settle(&mut |_, n_changes| (0, (n_changes > 0).then(|| below(dice, SECTOR))));
            }
            mood => self.settle(&mut |_, n_changes| {
                let all = match mood {
                    Mood::Late => dice(8) != 0,
                    Mood::Early => dice(8) == 0,
                    Mood::Mixed | Mood::Prefix => false,
                };
                let nothing = matches!(mood, Mood::Early) && !all;
                if all {
                    return (n_changes, None);
                }
                let kept = if nothing { 0 } else { below(dice, n_changes + 1) };
                let torn = (kept < n_changes && dice(4) == 0).then(|| below(dice, SECTOR));
                (kept, torn)
            }),
        }
        self.durable.resize(length, 0);
        self.current.clone_from(&self.durable);
    }

    /// Decides how many of the truncations are durable. A file system logs lengths in order, each as a whole.
    /// So the first truncations are durable and the others are lost.
    /// No byte that was cut off comes back as zero in a file that is as long as before.
    fn settle_truncations(&mut self, dice: &mut dyn FnMut(u64) -> u64) {
        let mut length = self.durable.len();
        let mut cuts = Vec::new();
        for (index, change) in self.pending.iter().enumerate() {
            let after = change.length_after(length);
            if after < length {
                cuts.push((index, after));
            }
            length = after;
        }
        if cuts.is_empty() {
            return;
        }
        let durable = below(dice, cuts.len() + 1);
        for (index, length) in &cuts[..durable] {
            self.durable.truncate(*length);
            for change in &mut self.pending[..*index] {
                change.truncate(*length);
            }
        }
        let mut index = 0;
        self.pending.retain(|_| {
            index += 1;
            cuts.iter().all(|(cut, _)| cut + 1 != index)
        });
    }

    /// One of the lengths that the file had since its last sync.
    fn length_after_cut(&self, dice: &mut dyn FnMut(u64) -> u64) -> usize {
        let mut lengths = vec![self.durable.len()];
        for change in &self.pending {
            let before = *lengths.last().expect("it begins with one");
            let after = change.length_after(before);
            if after != before {
                lengths.push(after);
            }
        }
        // As often as not the last one, so that writes at the end are not always cut off.
        if dice(2) == 0 {
            return *lengths.last().expect("it begins with one");
        }
        lengths[below(dice, lengths.len())]
    }

    /// Decides for every sector how many of its changes are durable, and at which byte the next one is torn.
    fn settle(&mut self, decide: &mut dyn FnMut(usize, usize) -> (usize, Option<usize>)) {
        let mut sectors: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut length = self.durable.len();
        let mut length_max = length;
        for (index, change) in self.pending.iter().enumerate() {
            for sector in change.sectors(length) {
                sectors.entry(sector).or_default().push(index);
            }
            length = change.length_after(length);
            length_max = length_max.max(length);
        }
        self.durable.resize(length_max, 0);
        for (sector, changes) in &sectors {
            let (kept, torn) = decide(*sector, changes.len());
            let start = sector * SECTOR;
            for index in &changes[..kept] {
                self.pending[*index].apply_within(&mut self.durable, start..start + SECTOR);
            }
            if let (Some(bytes), Some(index)) = (torn, changes.get(kept)) {
                self.pending[*index].apply_within(&mut self.durable, start..start + bytes);
            }
        }
        self.pending.clear();
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::Truncate { length } => content.resize(*length, 0),
        }
    }

    /// Applies what of it falls into a range, without a change of length.
    fn apply_within(&self, content: &mut [u8], range: Range<usize>) {
        match self {
            Self::Write { offset, bytes } => {
                let start = range.start.max(*offset);
                let end = range.end.min(offset + bytes.len()).min(content.len());
                if start < end {
                    content[start..end].copy_from_slice(&bytes[start - offset..end - offset]);
                }
            }
            Self::Truncate { length } => {
                let start = range.start.max(*length);
                let end = range.end.min(content.len());
                if start < end {
                    content[start..end].fill(0);
                }
            }
        }
    }

    /// Removes the bytes beyond that length.
    fn truncate(&mut self, most: usize) {
        match self {
            Self::Write { offset, bytes } => {
                bytes.truncate(most.saturating_sub(*offset));
                *offset = most.min(*offset);
            }
            Self::Truncate { length } => *length = most.min(*length),
        }
    }

    fn length_after(&self, length: usize) -> usize {
        match self {
            Self::Write { offset, bytes } => length.max(offset + bytes.len()),
            Self::Truncate { length } => *length,
        }
    }

    /// Returns the sectors that it changes in a file of that length.
    fn sectors(&self, length_before: usize) -> Range<usize> {
        let (start, end) = match self {
            Self::Write { offset, bytes } => (*offset, offset + bytes.len()),
            Self::Truncate { length } => (*length, length_before.max(*length)),
        };
        start / SECTOR..end.div_ceil(SECTOR)
    }
}

fn mood(dice: &mut dyn FnMut(u64) -> u64) -> Mood {
    match dice(4) {
        0 => Mood::Mixed,
        1 => Mood::Prefix,
        2 => Mood::Late,
        _ => Mood::Early,
    }
}

/// Returns a number below the bound.
pub(crate) fn below(dice: &mut dyn FnMut(u64) -> u64, bound: usize) -> usize {
    usize::try_from(dice(bound as u64)).expect("the dice stay below their bound") % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::Inode;
    use std::collections::BTreeSet;

    /// Returns the file after a power cut. Before that it was truncated to that length and overwritten at its start, unsynced.
    fn after_a_cut(seed: u64, length: usize) -> Vec<u8> {
        let mut file = Inode::with_content(&[b'o'; 4_096]);
        file.truncate(length);
        file.write(0, &[b'n'; 512]);
        let mut state = seed;
        file.power_cut(&mut |bound| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound.max(1)
        });
        file.content().to_vec()
    }

    #[test]
    fn a_power_cut_keeps_or_loses_a_truncation_as_a_whole() {
        for length in [0, 700, 2_048] {
            let found: BTreeSet<usize> = (0..500)
                .map(|seed| {
                    let found = after_a_cut(seed, length);
                    let begun = found.len().min(512);
                    let kept = &found[begun..];
                    assert!(
                        kept.iter().all(|byte| *byte == b'o'),
                        "seed {seed}: {length} bytes"
                    );
                    found.len()
                })
                .collect();
            let expected = BTreeSet::from([length, length.max(512), 4_096]);
            assert_eq!(found, expected);
        }
    }
}
