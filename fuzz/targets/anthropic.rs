//! Any bytes as the body of a reply: Messages.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{Format, check_decoder, mutate, on_worker};
use loopwright_providers::anthropic::Messages;
use serde_json::Value;

const FORMAT: Format = Format { ends };

fn ends(payload: &Value) -> bool {
    payload["type"] == "message_stop" || payload["type"] == "message"
}

fuzz_target!(|body: &[u8]| on_worker("a reply", || check_decoder::<Messages>(&FORMAT, body)));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(data, size, max, seed)
});
