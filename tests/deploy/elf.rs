//! Which libraries a program asks the loader for, read from its ELF header: an image holds these and no more.

use escapement_tests::Binaries;
use std::collections::BTreeSet;
use std::path::Path;

/// The bytes of a program for a 64-bit little-endian machine.
struct Program(Vec<u8>);

impl Program {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes[..6], *b"\x7fELF\x02\x01", "{}", path.display());
        Self(bytes)
    }

    fn number(&self, at: usize, n_bytes: usize) -> usize {
        let bytes = &self.0[at..at + n_bytes];
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }

    /// Kind, offset in the file, address and length of each segment.
    fn segments(&self) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let (table, size, count) = (self.number(32, 8), self.number(54, 2), self.number(56, 2));
        (0..count)
            .map(move |index| table + index * size)
            .map(|at| {
                [(0, 4), (8, 8), (16, 8), (32, 8)].map(|(field, n_bytes)| self.number(at + field, n_bytes))
            })
            .map(|[kind, offset, address, length]| (kind, offset, address, length))
    }

    /// The names of the libraries.
    fn needed(&self) -> BTreeSet<String> {
        let (_, dynamic, _, length) = self.segments().find(|segment| segment.0 == DYNAMIC).unwrap();
        let entries = (dynamic..dynamic + length).step_by(16);
        let entries: Vec<_> = entries
            .map(|at| (self.number(at, 8), self.number(at + 8, 8)))
            .collect();
        let (_, names) = entries.iter().find(|entry| entry.0 == STRING_TABLE).unwrap();
        let loaded = |segment: &(usize, usize, usize, usize)| {
            segment.0 == LOAD && (segment.2..segment.2 + segment.3).contains(names)
        };
        let (_, offset, address, _) = self.segments().find(loaded).unwrap();
        let names = names - address + offset;
        let needed = entries.iter().filter(|entry| entry.0 == NEEDED);
        needed.map(|(_, name)| self.text(names + name)).collect()
    }

    fn text(&self, at: usize) -> String {
        let bytes = self.0[at..].iter().take_while(|byte| **byte != 0).copied();
        String::from_utf8(bytes.collect()).unwrap()
    }
}

#[test]
fn the_programs_need_libc_libm_and_libgcc_alone() {
    let binaries = Binaries::build().unwrap();
    for program in [&binaries.orchestrator, &binaries.worker] {
        let needed = Program::read(program).needed();
        let is_known = |name: &String| {
            let stem = name.split(".so").next().unwrap_or_default();
            ["libc", "libm", "libgcc_s"].contains(&stem) || stem.starts_with("ld-linux")
        };
        assert!(needed.iter().all(is_known), "{}: {needed:?}", program.display());
        assert!(needed.contains("libc.so.6"), "{needed:?}");
    }
}

const LOAD: usize = 1;
const DYNAMIC: usize = 2;
const NEEDED: usize = 1;
const STRING_TABLE: usize = 5;
