//! Models whose request bodies are checked: the formats' own providers, and servers that deviate.

use loopwright_core::ChatModel;
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Catalogue, Model, Wire, WireFormat};
use serde_json::{Value, json};

/// A model at a provider.
pub(super) struct Target {
    /// The model's id, `provider/name`.
    pub(super) id: &'static str,
    /// The host of the provider's server, whose deviations count.
    host: &'static str,
    pub(super) wire: Wire,
}

const fn target(id: &'static str, host: &'static str, wire: Wire) -> Target {
    Target { id, host, wire }
}

pub(super) const TARGETS: [Target; 14] = [
    target("openai/gpt-6-luna", "api.openai.com", Wire::OpenAiResponses),
    target("openai/gpt-4.1-mini", "api.openai.com", Wire::OpenAiChat),
    target("anthropic/claude-sonnet-4-5", "api.anthropic.com", Wire::Anthropic),
    target("anthropic/claude-haiku-5-5", "api.anthropic.com", Wire::Anthropic),
    target("anthropic/claude-opus-5-5", "api.anthropic.com", Wire::Anthropic),
    target("google/gemini-2.5-flash", "generativelanguage.googleapis.com", Wire::Gemini),
    target("google/gemini-3.8-flash", "generativelanguage.googleapis.com", Wire::Gemini),
    target("mistral/mistral-small-latest", "api.mistral.ai", Wire::OpenAiChat),
    target("deepseek/deepseek-flash", "api.deepseek.com", Wire::OpenAiChat),
    target("moonshot/kimi-k2.6", "api.moonshot.ai", Wire::OpenAiChat),
    target("openrouter/anthropic/claude-sonnet-4.6", "openrouter.ai", Wire::OpenAiChat),
    target("groq/openai/gpt-oss-120b", "api.groq.com", Wire::OpenAiChat),
    target("together/zai-org/GLM-5", "api.together.xyz", Wire::OpenAiChat),
    target("vllm/qwen3", "localhost", Wire::OpenAiChat),
];

impl Target {
    /// Returns whether the format has texts before which the model stops.
    pub(super) fn stops(&self) -> bool {
        match self.wire {
            Wire::OpenAiResponses => Responses::STOPS,
            Wire::Anthropic => Messages::STOPS,
            Wire::Gemini => GenerateContent::STOPS,
            _ => ChatCompletions::STOPS,
        }
    }

    /// Returns the model, which sends its requests to `url`, with or without a user's own options.
    pub(super) fn model(&self, url: &str, with_options: bool) -> Box<dyn ChatModel> {
        match self.wire {
            Wire::OpenAiResponses => self.built::<Responses>(url, with_options),
            Wire::Anthropic => self.built::<Messages>(url, with_options),
            Wire::Gemini => self.built::<GenerateContent>(url, with_options),
            _ => self.built::<ChatCompletions>(url, with_options),
        }
    }

    fn built<F: WireFormat>(&self, url: &str, with_options: bool) -> Box<dyn ChatModel> {
        let (provider, name) = self.id.split_once('/').unwrap();
        let mut builder = Model::<F>::builder(name)
            .provider(provider)
            .base_url(url)
            .profile(F::profile_of(provider, self.host, name))
            .facts(Catalogue::built_in().get(self.id).copied().unwrap_or_default());
        let options = if with_options { self.options() } else { json!({}) };
        for (name, value) in options.as_object().unwrap() {
            builder = builder.option(name, value.clone());
        }
        Box::new(builder.build().unwrap())
    }

    /// Returns options of users of this format.
    fn options(&self) -> Value {
        match self.wire {
            Wire::OpenAiResponses => json!({"text": {"verbosity": "low"}, "top_p": 0.9,
                "include": ["web_search_call.results"], "tools": [{"type": "web_search"}]}),
            Wire::Anthropic => json!({"metadata": {"user_id": "u"}, "cache_control":
                {"type": "ephemeral", "ttl": "1h"}, "tools": [{"type": "web_search_20250305",
                "name": "web_search"}]}),
            Wire::Gemini => json!({"generationConfig": {"topP": 0.9, "seed": 7}, "safetySettings":
                [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]}),
            _ => json!({"top_p": 0.9, "frequency_penalty": 0.5}),
        }
    }
}
