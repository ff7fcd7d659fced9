//! Any bytes as the body of a reply: Chat Completions.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use loopwright_fuzz::{Format, check_decoder, mutate, on_worker};
use loopwright_providers::openai_chat::ChatCompletions;
use serde_json::Value;

const FORMAT: Format = Format { ends };

fn ends(payload: &Value) -> bool {
    let choices = payload["choices"].as_array();
    choices.is_some_and(|choices| choices.iter().any(|choice| !choice["finish_reason"].is_null()))
}

fuzz_target!(|body: &[u8]| on_worker("a reply", || check_decoder::<ChatCompletions>(
    &FORMAT, body
)));
fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(data, size, max, seed)
});
