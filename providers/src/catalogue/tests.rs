//! Tests of the catalogue.

use super::provider::Provider;
use super::*;

fn refused(list: &str) -> String {
    let mut catalogue = Catalogue::built_in();
    let error = catalogue.add(list, "mine.toml").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert_eq!(catalogue, Catalogue::built_in(), "a bad list changes nothing");
    error.message
}

#[test]
fn the_built_in_list_is_sound() {
    let models = parse(BUILT_IN, "models.toml").unwrap();
    assert!(models.len() >= 60, "{}", models.len());
    for (id, facts) in &models {
        let provider = id.split_once('/').and_then(|(name, _)| Provider::named(name)).unwrap();
        assert!(id.starts_with(provider.name), "{id} goes by another name of its provider");
        let (window, output) =
            (facts.context_window.unwrap_or(u64::MAX), facts.max_output.unwrap_or(1));
        assert!((4096..=u64::MAX).contains(&window) && output <= window, "{id}");
        if let Some(prices) = facts.prices {
            assert!(prices.input <= prices.output, "{id}: output costs no less than input");
            assert!(prices.cache_read <= prices.input && prices.output < 1000.0, "{id}");
            let long =
                prices.long.map_or((prices.input, prices.output), |long| (long.input, long.output));
            assert!(
                long.0 >= prices.input && long.1 >= prices.output,
                "{id}: long requests cost no less"
            );
        }
        assert_ne!(facts.wire, Some(provider.wire), "{id} says what goes without saying");
    }
}

#[test]
fn the_built_in_list_has_what_was_looked_up() {
    let catalogue = Catalogue::built_in();
    let sol = catalogue.get("openai/gpt-6-sol").unwrap();
    assert_eq!(
        (sol.context_window, sol.max_output, sol.thinking),
        (Some(1_050_000), Some(128_000), Some(true))
    );
    let prices = sol.prices.unwrap();
    assert_eq!(
        [prices.input, prices.output, prices.cache_read, prices.cache_write],
        [2.0, 10.0, 0.2, 2.5]
    );
    let long = LongPrices::new(272_000, 4.0, 15.0).cache(0.4, 5.0);
    assert_eq!(prices.long, Some(long));
    let oss = catalogue.get("groq/qwen/qwen3.8-27b").unwrap().prices.unwrap();
    assert_eq!(
        (oss.cache_read, oss.cache_write),
        (0.8, 0.8),
        "the cache price defaults to the input price"
    );
    assert_eq!(catalogue.get("mistral/mistral-large-4").unwrap().prices, None);
}

#[test]
fn entries_add_and_override_field_by_field() {
    let mut catalogue = Catalogue::built_in();
    let list = "
        [\"acme/big\"]
        wire = \"gemini\"
        [\"openai/gpt-4o\"]
        prices = { input = 1, output = 2.5 }
        thinking = true
    ";
    catalogue.add(list, "mine.toml").unwrap();
    assert_eq!(
        catalogue.get("acme/big"),
        Some(&ModelFacts { wire: Some(Wire::Gemini), ..ModelFacts::default() })
    );
    let gpt = catalogue.get("openai/gpt-4o").unwrap();
    assert_eq!(
        (gpt.wire, gpt.context_window, gpt.thinking),
        (Some(Wire::OpenAiChat), Some(128_000), Some(true))
    );
    let prices = Prices::new(1.0, 2.5).cache(1.0, 1.0);
    assert_eq!(gpt.prices, Some(prices));
}

#[test]
fn an_error_names_the_entry_the_field_and_the_remedy() {
    for (list, says) in [
        ("[\"a/b\"]\ncontxt = 1", &["`a/b`", "`contxt`", "`context_window`"][..]),
        (
            "[\"a/b\"]\ncontext_window = \"1M\"",
            &["`a/b`", "`context_window`", "\"1M\"", "a whole number", "leave it out"],
        ),
        ("[\"a/b\"]\nmax_output = -1", &["`a/b`", "`max_output`", "-1"]),
        ("[\"a/b\"]\nmax_output = 0", &["`a/b`", "`max_output` is 0"]),
        ("[\"a/b\"]\nwire = \"grpc\"", &["`a/b`", "`grpc`", "`wire`", "openai-responses"]),
        ("[\"a/b\"]\nprices = { input = 1 }", &["`a/b`", "`prices`", "`output`"]),
        ("[\"a/b\"]\nprices = { input = 1, output = -2 }", &["`a/b`", "below zero", "per million"]),
        (
            "[\"a/b\"]\nlong_prices = { over = 1, input = 1, output = 2 }",
            &["`a/b`", "`long_prices` needs `prices`"],
        ),
        ("[\"a/b\"]\nprices = 3", &["`a/b`", "`prices`", "a table such as { input"]),
        ("[\"a/b\"]\nimages = 1", &["`a/b`", "`images`", "boolean"]),
        ("[gpt]\nimages = true", &["`gpt`", "PROVIDER/NAME"]),
        ("\"a/b\" = 1", &["`a/b`"]),
        ("\n\n[openai/gpt-4o]\nimages = true", &["line 3", "[\"openai/gpt-4o\"]"]),
        ("[\"a/b\"]\n[\"a/b\"]", &["line 2"]),
    ] {
        let error = refused(list);
        assert!(error.starts_with("The model list mine.toml ") && error.ends_with('.'), "{error}");
        assert!(!error.contains('\n'), "{error}");
        for word in says {
            assert!(error.contains(word), "{word} is not in: {error}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Catalogue::new().add_file("no/such.toml").unwrap_err();
    assert_eq!(
        error.message,
        "The model list no/such.toml cannot be read: there is no such file. Check that it is \
         there, and that it is text."
    );
}

#[test]
fn a_snapshot_is_known_by_the_name_before_its_date() {
    let catalogue = Catalogue::built_in();
    let same = |dated, plain| {
        assert!(catalogue.get(dated).is_some() && catalogue.get(dated) == catalogue.get(plain))
    };
    same("openai/gpt-4.1-2025-04-14", "openai/gpt-4.1");
    same("anthropic/claude-opus-4-5-20251101", "anthropic/claude-opus-4-5");
    assert_eq!(catalogue.get("openai/gpt-4.1-99"), None);
    assert_eq!(catalogue.get("openai/gpt-4.1-2025-04"), None);
    assert_eq!(catalogue.get("gpt-4.1"), None);
}

#[test]
fn a_search_looks_anywhere_in_the_id_whatever_the_case() {
    let catalogue = Catalogue::built_in();
    let ids = |filter| catalogue.search(filter).map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids("HAIKU-4"), ["anthropic/claude-haiku-4-5"]);
    assert_eq!(ids("KIMI-k3"), ["openrouter/moonshotai/kimi-k3", "together/moonshotai/Kimi-K3"]);
    assert_eq!(ids("").len(), catalogue.models.len());
    assert!(ids("").is_sorted());
}
