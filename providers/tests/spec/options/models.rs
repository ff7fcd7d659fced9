//! Models that receive requests, and their request bodies.

use loopwright_core::model::ChatRequest;
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Catalogue, Provider, Settings, Wire, WireFormat};
use serde_json::Value;

use crate::rules;
use crate::rules::openai_chat::Server;

/// Models that are missing from the catalogue, or listed there in another format: format, server
/// and name. A server is a host or a provider's name.
const MORE: &[(&str, &str, &str)] = &[
    ("chat", "api.openai.com", "gpt-4o"),
    ("chat", "api.openai.com", "gpt-5-mini"),
    ("chat", "api.openai.com", "o3"),
    ("chat", "api.mistral.ai", "magistral-medium"),
    ("chat", "api.deepseek.com", "deepseek-chat"),
    ("chat", "api.groq.com", "openai/gpt-oss-120b"),
    ("chat", "openrouter.ai", "anthropic/claude-haiku-4.5"),
    ("chat", "localhost", "qwen3:8b"),
    ("chat", "azure", "gpt-5.6-luna"),
    ("chat", "api.openai.com", "gpt-5.4"),
    ("chat", "api.openai.com", "gpt-6-luna"),
    ("chat", "api.moonshot.ai", "kimi-k2.6"),
    ("chat", "api.moonshot.ai", "kimi-k3"),
    ("chat", "api.x.ai", "grok-3-mini"),
    ("responses", "api.openai.com", "gpt-5.4-pro"),
    ("responses", "api.openai.com", "gpt-5.5-pro"),
    ("responses", "api.openai.com", "gpt-5.2-chat-latest"),
    ("anthropic", "", "claude-sonnet-5"),
    ("anthropic", "", "claude-fable-5"),
    ("responses", "api.openai.com", "gpt-4.1"),
    ("responses", "api.openai.com", "gpt-5.1"),
    ("responses", "api.openai.com", "o3"),
    ("anthropic", "", "claude-3-haiku-20240307"),
    ("anthropic", "", "claude-sonnet-4-20250514"),
    ("anthropic", "", "claude-sonnet-4-5"),
    ("anthropic", "", "claude-opus-4-7"),
    ("gemini", "", "gemini-2.0-flash"),
    ("gemini", "", "gemini-2.5-pro"),
    ("gemini", "", "gemini-2.5-flash"),
    ("gemini", "", "gemini-3-pro-preview"),
];

/// Returns the models of the catalogue, and `MORE`.
pub(super) fn models() -> Vec<(&'static str, &'static str, &'static str)> {
    let catalogue = Catalogue::built_in();
    let known = catalogue.search("").map(|(id, facts)| {
        let (provider, name) = id.split_once('/').unwrap();
        let provider = Provider::named(provider).unwrap();
        let host = provider
            .base_url
            .split('/')
            .nth(2)
            .filter(|_| !provider.local)
            .unwrap_or(provider.name);
        let format = match facts.wire.unwrap_or(provider.wire) {
            Wire::OpenAiResponses => "responses",
            Wire::Anthropic => "anthropic",
            Wire::Gemini => "gemini",
            _ => "chat",
        };
        (format, host, &*name.to_owned().leak())
    });
    known.chain(MORE.iter().copied()).collect()
}

fn encode<F: WireFormat>(request: &ChatRequest, server: &str, model: &str) -> Vec<u8> {
    let mut settings = Settings::new(model);
    settings.profile = F::profile_of(server, server, model);
    F::encode(request, &settings)
}

/// Returns the body for a model, after a check against the rules of its API.
pub(super) fn body(request: &ChatRequest, (format, host, model): (&str, &str, &str)) -> Value {
    let (bytes, legal) = match format {
        "chat" => {
            let bytes = encode::<ChatCompletions>(request, host, model);
            let legal = rules::openai_chat::check(&bytes, Server::of(host));
            (bytes, legal)
        }
        "responses" => {
            let bytes = encode::<Responses>(request, host, model);
            let legal = rules::openai_responses::check(&bytes);
            (bytes, legal)
        }
        "anthropic" => {
            let bytes = encode::<Messages>(request, host, model);
            let legal = rules::anthropic::check(&bytes);
            (bytes, legal)
        }
        _ => {
            let bytes = encode::<GenerateContent>(request, host, model);
            let legal = rules::gemini::check(&bytes, model);
            (bytes, legal)
        }
    };
    legal.unwrap_or_else(|why| {
        panic!("{model} at {host}: {why}\n{}", String::from_utf8_lossy(&bytes))
    });
    serde_json::from_slice(&bytes).unwrap()
}
