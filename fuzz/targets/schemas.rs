//! Any JSON Schema with any value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwright_fuzz::check_schemas;

fuzz_target!(|bytes: &[u8]| check_schemas(bytes));
