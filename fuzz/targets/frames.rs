//! Any lines from an MCP server, and from an MCP client.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwright_fuzz::check_frames;

fuzz_target!(|bytes: &[u8]| check_frames(bytes));
