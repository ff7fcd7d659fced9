//! Any bytes as what a client of a protocol sends, and any session as what it receives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwright_fuzz::{check_decoders, check_folds};

fuzz_target!(|bytes: &[u8]| {
    check_decoders(bytes);
    check_folds(bytes);
});
