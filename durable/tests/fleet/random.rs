//! Random numbers from a seed.

/// The SplitMix64 generator (Steele, Lea and Flood: Fast splittable pseudorandom number generators,
/// 2014).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Returns a number from the environment.
pub(crate) fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}

/// Returns the seed, and prints it.
pub(crate) fn seed() -> u64 {
    let time = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = from_env("LOOPWRIGHT_SEED", time);
    println!("LOOPWRIGHT_SEED={seed}");
    seed
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}
