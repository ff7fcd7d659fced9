//! A generator of random numbers.

/// A xorshift generator. The same seed gives the same numbers.
pub(crate) struct Random(u64);

impl Random {
    /// Returns a generator with this seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    /// Returns the seed in `LOOPWRIGHT_SEED`, if there is one.
    pub(crate) fn given_seed() -> Option<u64> {
        std::env::var("LOOPWRIGHT_SEED").ok().and_then(|seed| seed.parse().ok())
    }

    /// Returns a number below `end`, or 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    /// Returns `true` in this many of 100 cases.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
