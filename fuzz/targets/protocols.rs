//! Any bytes as a message from a client of a protocol, and any session as the messages to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwright_fuzz::{check_decoders, check_folds, on_worker};

fuzz_target!(|bytes: &[u8]| {
    on_worker("a request", || check_decoders(bytes));
    on_worker("a session", || check_folds(bytes));
});
