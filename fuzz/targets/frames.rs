//! Any lines from an MCP server, an MCP client, and an editor.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwright_fuzz::check_frames;

fuzz_target!(|bytes: &[u8]| check_frames(bytes));
