//! Any bytes as an event stream.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{check_parser, mutate, on_worker};

fuzz_target!(|bytes: &[u8]| on_worker("events", || check_parser(bytes)));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(data, size, max, seed)
});
