//! Detection of truncated prompts. Some servers silently cut a prompt that exceeds their context
//! window.

use loopwright_core::message::Usage;

use crate::http::endpoint::Endpoint;

/// The minimum size of a prompt to check.
const MIN_JUDGED_BYTES: usize = 16 << 10;
/// The maximum number of bytes per token. Above it, the server has not read all of the text.
const MAX_BYTES_PER_TOKEN: u64 = 12;
/// The minimum length of a run of base64 letters that counts as an image.
const MIN_BASE64_RUN: usize = 256;

/// Warns if `usage` counts far fewer tokens than the body in `sent` contains.
pub(crate) fn warn_if_truncated(sent: &[u8], usage: &Usage, endpoint: &Endpoint) {
    let read = usage.input + usage.cache_read + usage.cache_write;
    if is_truncated(sent, read) {
        tracing::warn!(
            bytes = sent.len(),
            tokens = read,
            "{endpoint} seems to have read only a part of the prompt. Give the model a larger \
             context window: with \
             Ollama set OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile; its /v1 takes no such \
             field."
        );
    }
}

/// Returns whether a prompt of this size must have more tokens. A server that reports 0 does not
/// count tokens.
fn is_truncated(sent: &[u8], tokens: u64) -> bool {
    let fits = |bytes: usize| {
        bytes < MIN_JUDGED_BYTES || tokens.saturating_mul(MAX_BYTES_PER_TOKEN) >= bytes as u64
    };
    tokens > 0 && !fits(sent.len()) && !fits(text_bytes(sent))
}

/// Returns the number of bytes outside base64 images.
fn text_bytes(body: &[u8]) -> usize {
    let of_base64 = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
    };
    let runs = body.split(|byte| !of_base64(byte)).map(<[u8]>::len);
    body.len() - runs.filter(|run| *run >= MIN_BASE64_RUN).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quirk_42_a_truncated_prompt_is_distinguished_from_a_complete_one() {
        let prompt = "The quick brown fox. ".repeat(4000);
        assert!(is_truncated(prompt.as_bytes(), 4096));
        assert!(!is_truncated(prompt.as_bytes(), 20_000), "some four bytes are a token");
        assert!(!is_truncated(prompt.as_bytes(), 0), "nothing was counted");
        assert!(!is_truncated(&prompt.as_bytes()[..MIN_JUDGED_BYTES - 1], 10), "too short to tell");
        let image = format!("look: {}", "iVBORw0KGgo".repeat(9000));
        assert!(!is_truncated(image.as_bytes(), 900), "an image is few tokens");
    }
}
