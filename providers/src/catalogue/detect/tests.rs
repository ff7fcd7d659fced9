//! Tests of the selection of a model.

use super::*;

/// Returns the model for an id and these environment variables, and its address.
fn resolve_id(id: &str, base_url: Option<&str>, vars: &[&str]) -> Result<Resolved, ModelError> {
    let var = |name: &str| {
        vars.iter().find_map(|var| Some(var.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
    };
    resolve_with(id, base_url, &Catalogue::built_in(), var)
}

fn refused(id: &str, base_url: Option<&str>, vars: &[&str]) -> ModelError {
    resolve_id(id, base_url, vars).map(|_| ()).unwrap_err()
}

#[test]
fn every_provider_has_its_format_its_address_and_its_key() {
    use Wire::*;
    for (id, var, wire, address) in [
        ("openai/gpt-6-sol", "OPENAI_API_KEY", OpenAiResponses, "https://api.openai.com/v1"),
        ("openai/gpt-4o-mini", "OPENAI_API_KEY", OpenAiChat, "https://api.openai.com/v1"),
        ("openai/not-in-the-list", "OPENAI_API_KEY", OpenAiResponses, "https://api.openai.com/v1"),
        ("openai-chat/gpt-6-sol", "OPENAI_API_KEY", OpenAiChat, "https://api.openai.com/v1"),
        ("openai-responses/gpt-4o", "OPENAI_API_KEY", OpenAiResponses, "https://api.openai.com/v1"),
        (
            "anthropic/claude-opus-5-5",
            "ANTHROPIC_API_KEY",
            Anthropic,
            "https://api.anthropic.com/v1",
        ),
        (
            "google/gemini-3.8-flash",
            "GEMINI_API_KEY",
            Gemini,
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        (
            "gemini/gemini-3.8-flash",
            "GOOGLE_API_KEY",
            Gemini,
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        (
            "openrouter/openai/gpt-4o",
            "OPENROUTER_API_KEY",
            OpenAiChat,
            "https://openrouter.ai/api/v1",
        ),
        ("groq/qwen/qwen3.8-27b", "GROQ_API_KEY", OpenAiChat, "https://api.groq.com/openai/v1"),
        ("deepseek/deepseek-flash", "DEEPSEEK_API_KEY", OpenAiChat, "https://api.deepseek.com/v1"),
        (
            "mistral/mistral-small-latest",
            "MISTRAL_API_KEY",
            OpenAiChat,
            "https://api.mistral.ai/v1",
        ),
        ("xai/grok-4.7", "XAI_API_KEY", OpenAiChat, "https://api.x.ai/v1"),
        ("together/zai-org/GLM-5.3", "TOGETHER_API_KEY", OpenAiChat, "https://api.together.xyz/v1"),
        ("ollama/qwen3:8b", "-", OpenAiChat, "http://127.0.0.1:11434/v1"),
        ("llama.cpp/any", "-", OpenAiChat, "http://127.0.0.1:8080/v1"),
        ("vllm/org/any", "-", OpenAiChat, "http://127.0.0.1:8000/v1"),
        ("lmstudio/any", "-", OpenAiChat, "http://127.0.0.1:1234/v1"),
    ] {
        let resolved = resolve_id(id, None, &[&format!("{var}=sk-of-the-test")]).unwrap();
        assert_eq!((resolved.wire, resolved.address.as_str()), (wire, address), "{id}");
        assert_eq!(resolved.key.as_deref(), Some("sk-of-the-test").filter(|_| var != "-"), "{id}");
        let name = id.split_once('/').unwrap().1;
        let model = resolved.build().unwrap();
        assert_eq!(model.info().id.split_once('/').unwrap().1, name);
        if var != "-" {
            let error = refused(id, None, &[&format!("{var}=  ")]);
            assert!(error.kind == ModelErrorKind::Auth && error.message.contains(var), "{error}");
        }
    }
}

#[test]
fn the_gemini_key_goes_before_the_google_one() {
    let vars = ["GOOGLE_API_KEY=second", "GEMINI_API_KEY=first"];
    assert_eq!(resolve_id("google/x", None, &vars).unwrap().key.as_deref(), Some("first"));
}

#[test]
fn at_an_address_of_ones_own_openai_is_a_compatible_server() {
    let wire = |id, base_url, vars: &[&str]| resolve_id(id, base_url, vars).unwrap().wire;
    let url = Some("http://h/v1");
    assert_eq!(wire("openai/gpt-6-sol", url, &[]), Wire::OpenAiChat);
    assert_eq!(wire("openai/gpt-6-sol", None, &["OPENAI_BASE_URL=http://h/v1"]), Wire::OpenAiChat);
    assert_eq!(wire("openai-responses/gpt-6-sol", url, &[]), Wire::OpenAiResponses);
    assert_eq!(wire("anthropic/any", url, &[]), Wire::Anthropic);
    assert_eq!(wire("acme/any", url, &[]), Wire::OpenAiChat);
}

#[test]
fn an_address_may_be_as_its_providers_users_write_it() {
    let address = |id, base_url, vars: &[&str]| resolve_id(id, base_url, vars).unwrap().address;
    assert_eq!(address("anthropic/x", Some("http://h"), &[]), "http://h/v1");
    assert_eq!(address("anthropic/x", Some("http://h/v1/"), &[]), "http://h/v1");
    assert_eq!(address("anthropic/x", None, &["ANTHROPIC_BASE_URL=http://h"]), "http://h/v1");
    assert_eq!(address("google/x", Some("http://h"), &[]), "http://h/v1beta");
    assert_eq!(address("openai/x", Some("http://h/api"), &[]), "http://h/api");
    let azure =
        address("azure/mine", None, &["AZURE_OPENAI_ENDPOINT=https://me.openai.azure.com/"]);
    assert_eq!(azure, "https://me.openai.azure.com/openai/v1");
    assert!(
        refused("azure/mine", None, &["AZURE_OPENAI_API_KEY=k"])
            .message
            .contains("AZURE_OPENAI_ENDPOINT")
    );
    assert_eq!(address("ollama/x", None, &["OLLAMA_HOST=0.0.0.0:99"]), "http://127.0.0.1:99/v1");
}

#[test]
fn an_unknown_provider_needs_an_address() {
    let error = refused("acme/big", None, &[]);
    assert!(
        error.message.contains("`acme` is not known") && error.message.contains("openrouter"),
        "{error}"
    );
    let model = |id| resolve_id(id, Some("http://h/v1"), &["ACME_API_KEY=key-of-acme"]).unwrap();
    assert_eq!(model("acme/big").key.as_deref(), Some("key-of-acme"));
    assert_eq!(&*model("acme/big").build().unwrap().info().id, "acme/big");
    assert_eq!(&*model("big").build().unwrap().info().id, "custom/big");
    assert!(refused("big", None, &[]).message.contains("PROVIDER/NAME"));
}

#[test]
fn a_name_without_a_provider_is_completed_where_it_is_known() {
    let error = refused("claude-opus-5-5", None, &[]);
    assert!(error.message.contains("such as anthropic/claude-opus-5-5."), "{error}");
}

#[test]
fn what_the_catalogue_knows_is_in_the_models_info() {
    let model = resolve_id("anthropic/claude-sonnet-4-5-20250929", None, &["ANTHROPIC_API_KEY=k"])
        .unwrap()
        .build()
        .unwrap();
    let info = model.info();
    assert_eq!(&*info.id, "anthropic/claude-sonnet-4-5-20250929");
    assert_eq!((info.context_window, info.max_output), (Some(200_000), Some(64_000)));
    assert_eq!((info.thinking, info.images), (Some(true), Some(true)));
    let prices = info.prices.unwrap();
    assert_eq!(
        (prices.input, prices.output, prices.cache_read, prices.cache_write),
        (3.0, 15.0, 0.3, 3.75)
    );
    let unknown =
        resolve_id("openai/unheard-of", None, &["OPENAI_API_KEY=k"]).unwrap().build().unwrap();
    assert_eq!((unknown.info().prices, unknown.info().max_output), (None, None));
    let local = resolve_id("ollama/unheard-of", None, &[]).unwrap().build().unwrap();
    assert_eq!(local.info().prices, Some(Prices::default()));
}

#[test]
fn a_catalogue_of_ones_own_decides_on_the_format() {
    let mut catalogue = Catalogue::built_in();
    catalogue.add("[\"acme/big\"]\nwire = \"anthropic\"\nmax_output = 7", "acme.toml").unwrap();
    let resolved = resolve_with("acme/big", Some("http://h/acme"), &catalogue, |_| None).unwrap();
    assert_eq!((resolved.wire(), resolved.address.as_str()), (Wire::Anthropic, "http://h/acme/v1"));
    assert_eq!(resolved.facts().max_output, Some(7));
}

#[test]
fn debug_output_contains_no_key() {
    let resolved = resolve_id("openai/x", None, &["OPENAI_API_KEY=sk-very-secret"]).unwrap();
    assert!(!format!("{resolved:?}").contains("secret"));
}

#[test]
fn the_models_to_begin_with_are_in_the_catalogue() {
    let catalogue = Catalogue::built_in();
    for provider in PROVIDERS.iter().filter(|provider| !provider.default_model.is_empty()) {
        let id = format!("{}/{}", provider.name, provider.default_model);
        assert!(catalogue.get(&id).is_some_and(|facts| facts.prices.is_some()), "{id}");
    }
}
