//! Any entries as the log of a session.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{check_log_of, mutate_lines, on_worker};

fuzz_target!(|bytes: &[u8]| on_worker("a log", || check_log_of(bytes)));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate_lines(data, size, max, seed)
});
