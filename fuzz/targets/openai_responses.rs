//! Any bytes as the body of a reply: Responses.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{Format, check_decoder, mutate, on_worker};
use loopwright_providers::openai_responses::Responses;
use serde_json::Value;

const FORMAT: Format = Format { ends };

fn ends(payload: &Value) -> bool {
    let last = ["completed", "incomplete", "failed", "cancelled", "done"];
    let kind = payload["type"].as_str().and_then(|kind| kind.strip_prefix("response."));
    payload["object"] == "response" || kind.is_some_and(|kind| last.contains(&kind))
}

fuzz_target!(|body: &[u8]| on_worker("a reply", || check_decoder::<Responses>(&FORMAT, body)));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(data, size, max, seed)
});
