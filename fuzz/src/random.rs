//! Numbers that look random, but are the same for the same input.

/// A xorshift generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// Returns a generator whose seed is a hash of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Random {
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Random::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    /// Returns chunks of random lengths: often short, sometimes empty.
    pub(crate) fn split<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut chunks = Vec::new();
        let max = [2, 9, 60, 900][self.below(4)];
        while !bytes.is_empty() {
            let (chunk, rest) = bytes.split_at(self.below(max).min(bytes.len()));
            chunks.push(chunk);
            bytes = rest;
        }
        chunks
    }
}
