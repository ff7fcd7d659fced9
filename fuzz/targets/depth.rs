//! Deeply nested texts for every parser.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwright_fuzz::check_depth;

fuzz_target!(|bytes: &[u8]| check_depth(bytes));
