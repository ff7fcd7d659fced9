//! Any bytes as the body of a reply: Gemini.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{Format, check_decoder, mutate, on_worker};
use loopwright_providers::gemini::GenerateContent;
use serde_json::Value;

const FORMAT: Format = Format { ends };

fn ends(payload: &Value) -> bool {
    let candidates = payload["candidates"].as_array();
    candidates.is_some_and(|candidates| candidates.iter().any(|one| !one["finishReason"].is_null()))
}

fuzz_target!(|body: &[u8]| on_worker("a reply", || check_decoder::<GenerateContent>(
    &FORMAT, body
)));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(data, size, max, seed)
});
