//! Any bytes as a file of a store, or as an exported session.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{check_store, mutate_lines};

fuzz_target!(|bytes: &[u8]| check_store(bytes));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate_lines(data, size, max, seed)
});
