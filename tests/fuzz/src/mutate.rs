//! Inputs made of other inputs, for a test that has no libFuzzer. The same seed makes the same ones.

use escapement_tests::Dice;

/// Makes inputs.
#[derive(Debug)]
pub struct Mutator {
    dice: Dice,
}

impl Mutator {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
        }
    }

    fn draw(&mut self, sides: usize) -> usize {
        self.dice.index(sides.max(1))
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.draw(256)).expect("below 256")
    }

    /// Up to 700 bytes, each of them random.
    pub fn any(&mut self) -> Vec<u8> {
        (0..self.draw(700)).map(|_| self.byte()).collect()
    }

    /// One of these, with up to four changes.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.draw(corpus.len())].clone();
        for _ in 0..=self.draw(4) {
            self.change(&mut input, corpus);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.draw(input.len() + 1);
        let length = self.draw(9).min(input.len() - at);
        match self.draw(8) {
            0 | 1 if at < input.len() => input[at] ^= 1 << self.draw(8),
            2 | 3 if at < input.len() => input[at] = self.byte(),
            4 => {
                let byte = self.byte();
                input.insert(at, byte);
            }
            5 => {
                input.drain(at..at + length);
            }
            6 => {
                let piece = input[at..at + length].to_vec();
                let to = self.draw(input.len() + 1);
                input.splice(to..to, piece);
            }
            _ => {
                // The end of another input behind the beginning of this one.
                let other = &corpus[self.draw(corpus.len())];
                let from = self.draw(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}
