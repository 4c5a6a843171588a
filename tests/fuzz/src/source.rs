//! Splits an input into numbers, choices and texts. What is missing at the end is 0. Judges nothing.

/// What is left of an input.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        *first
    }

    /// Returns a number below `sides`.
    pub(crate) fn below(&mut self, sides: u8) -> usize {
        usize::from(self.byte() % sides.max(1))
    }

    /// Returns true once in `sides`, and not at the end of the input.
    pub(crate) fn once_in(&mut self, sides: u8) -> bool {
        self.byte() % sides.max(1) == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let sides = u8::try_from(from.len()).expect("choices are few");
        from[self.below(sides)]
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Eight bytes.
    pub(crate) fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Mostly small, sometimes at an edge, sometimes anything.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            small @ 0..=199 => i64::from(small % 50),
            byte @ 200..=219 => i64::from(byte) * 997,
            220..=223 => -1,
            224..=227 => i64::MAX,
            228..=231 => i64::MIN,
            232..=235 => i64::from(i32::MAX),
            236..=245 => i64::from(self.word()),
            _ => self.long().cast_signed(),
        }
    }

    /// As [`Source::number`], cut to 32 bits.
    pub(crate) fn number32(&mut self) -> i32 {
        i32::try_from(self.number()).unwrap_or(i32::MIN)
    }

    /// Returns a part of the input with its length in front.
    pub(crate) fn chunk(&mut self) -> &'a [u8] {
        let length = match self.byte() {
            length @ 0..=250 => usize::from(length),
            _ => usize::from(self.word()),
        };
        let (chunk, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        chunk
    }

    /// Returns a text; bytes that are no UTF-8 are replaced, so that it is one.
    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.chunk()).into_owned()
    }
}
