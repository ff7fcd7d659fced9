//! The user's options, which are merged into our fields.

use std::collections::BTreeSet;
use std::sync::Arc;

use loopwright_core::model::ThinkingLevel::{High, Off};
use loopwright_core::model::{ChatRequest, OutputSchema, ToolChoice};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Settings, WireFormat};
use serde_json::{Value, json};

use super::{hi, schema, strict_schema, with_output, with_tools};

/// One option: the model and host, its name and value, and the field that is then sent.
struct Case {
    format: &'static str,
    host: &'static str,
    model: &'static str,
    name: &'static str,
    own: Value,
    sent: Value,
}

fn case(
    (format, host, model): (&'static str, &'static str, &'static str),
    name: &'static str,
    own: Value,
    sent: Value,
) -> Case {
    Case { format, host, model, name, own, sent }
}

/// Returns a request that sets everything, so every encoder writes every field that it can.
fn everything() -> ChatRequest {
    let mut request = with_output(with_tools(hi()));
    (request.max_tokens, request.temperature) = (Some(20_000), Some(0.5));
    (request.thinking, request.tool_choice) = (High, ToolChoice::Tool("g".into()));
    request.stop = vec!["END".into()];
    request
}

fn encode<F: WireFormat>(request: &ChatRequest, case: &Case) -> Value {
    let mut settings = Settings::new(case.model);
    settings.profile = F::profile_of(case.host, case.host, case.model);
    settings.options.insert(case.name.into(), case.own.clone());
    serde_json::from_slice(&F::encode(request, &settings)).unwrap()
}

fn body(request: &ChatRequest, case: &Case) -> Value {
    match case.format {
        "openai-chat" => encode::<ChatCompletions>(request, case),
        "openai-responses" => encode::<Responses>(request, case),
        "anthropic" => encode::<Messages>(request, case),
        "gemini" => encode::<GenerateContent>(request, case),
        other => panic!("{other}"),
    }
}

const OPENAI: (&str, &str, &str) = ("openai-chat", "api.openai.com", "gpt-4o");
const OPENROUTER: (&str, &str, &str) = ("openai-chat", "openrouter.ai", "anthropic/claude-x");
const DEEPSEEK: (&str, &str, &str) = ("openai-chat", "api.deepseek.com", "deepseek-flash");
const RESPONSES: (&str, &str, &str) = ("openai-responses", "api.openai.com", "gpt-5.1");
const CLAUDE: (&str, &str, &str) = ("anthropic", "", "claude-opus-4-7");
const GEMINI: (&str, &str, &str) = ("gemini", "", "gemini-3-pro");

/// Returns options that set a part of a field. The rest of the field stays ours.
fn merged() -> Vec<Case> {
    let named = |more: Value| {
        let mut format = json!({"name": "Out", "schema": strict_schema()});
        format.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format
    };
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let closed = json!({"type": "object", "required": ["n"],
        "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    vec![
        case(
            OPENAI,
            "response_format",
            json!({"type": "json_schema", "json_schema": {"description": "D"}}),
            json!({"type": "json_schema",
                "json_schema": named(json!({"strict": true, "description": "D"}))}),
        ),
        case(
            OPENAI,
            "stream_options",
            json!({"include_obfuscation": false}),
            json!({"include_usage": true, "include_obfuscation": false}),
        ),
        case(
            OPENROUTER,
            "reasoning",
            json!({"exclude": true}),
            json!({"effort": "high", "exclude": true}),
        ),
        case(DEEPSEEK, "thinking", json!({"more": 1}), json!({"type": "disabled", "more": 1})),
        case(OPENAI, "tool_choice", json!({"type": "function", "more": 1}), {
            let mut choice = function("g");
            choice["more"] = json!(1);
            choice
        }),
        case(
            OPENROUTER,
            "cache_control",
            json!({"ttl": "1h"}),
            json!({"type": "ephemeral", "ttl": "1h"}),
        ),
        case(
            RESPONSES,
            "reasoning",
            json!({"summary": "detailed"}),
            json!({"effort": "high", "summary": "detailed"}),
        ),
        case(
            RESPONSES,
            "text",
            json!({"verbosity": "low", "format": {"description": "D"}}),
            json!({"verbosity": "low", "format":
                named(json!({"type": "json_schema", "strict": true, "description": "D"}))}),
        ),
        case(
            RESPONSES,
            "tool_choice",
            json!({"type": "function", "name": "f"}),
            json!({"type": "function", "name": "f"}),
        ),
        case(
            CLAUDE,
            "output_config",
            json!({"task_budget": {"type": "tokens", "total": 9}}),
            json!({"task_budget": {"type": "tokens", "total": 9},
                "format": {"type": "json_schema", "schema": closed}}),
        ),
        case(
            CLAUDE,
            "tool_choice",
            json!({"disable_parallel_tool_use": true}),
            json!({"type": "tool", "name": "g", "disable_parallel_tool_use": true}),
        ),
        case(
            GEMINI,
            "systemInstruction",
            json!({"role": "system", "parts": [{"text": "More."}]}),
            json!({"role": "system", "parts": [{"text": "Be brief."}, {"text": "More."}]}),
        ),
        case(
            GEMINI,
            "toolConfig",
            json!({"retrievalConfig": {"languageCode": "de"}}),
            json!({"retrievalConfig": {"languageCode": "de"},
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}}),
        ),
        case(
            GEMINI,
            "generationConfig",
            json!({"topP": 0.9, "thinkingConfig": {"includeThoughts": false}}),
            json!({"topP": 0.9, "maxOutputTokens": 20_000, "stopSequences": ["END"],
                "temperature": 0.5,
                "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": false},
                "responseMimeType": "application/json", "responseJsonSchema": schema()}),
        ),
    ]
}

/// Returns options that are lists. Our elements come first.
fn joined() -> Vec<Case> {
    let own = |model, name, own: Value| case(model, name, own, Value::Null);
    vec![
        own(OPENAI, "tools", json!([{"type": "custom", "custom": {"name": "c"}}])),
        own(OPENAI, "stop", json!(["MINE"])),
        own(RESPONSES, "tools", json!([{"type": "web_search"}])),
        own(RESPONSES, "include", json!(["web_search_call.results"])),
        own(CLAUDE, "tools", json!([{"type": "web_search_20250305", "name": "web_search"}])),
        own(CLAUDE, "system", json!([{"type": "text", "text": "More."}])),
        own(CLAUDE, "stop_sequences", json!(["MINE"])),
        own(GEMINI, "tools", json!([{"googleSearch": {}}])),
    ]
}

/// Returns options that are neither objects nor lists.
fn replaced() -> Vec<Case> {
    let same = |model, name, own: Value| case(model, name, own.clone(), own);
    vec![
        same(OPENAI, "temperature", json!(0.25)),
        same(("openai-chat", "localhost", "qwen3"), "max_tokens", json!(7)),
        same(OPENAI, "max_completion_tokens", json!(7)),
        same(("openai-chat", "api.openai.com", "gpt-5"), "reasoning_effort", json!("low")),
        same(OPENAI, "prompt_cache_key", json!("mine")),
        same(RESPONSES, "instructions", json!("Mine.")),
        same(RESPONSES, "max_output_tokens", json!(7)),
        same(("openai-responses", "api.openai.com", "gpt-4.1"), "temperature", json!(0.25)),
        same(RESPONSES, "prompt_cache_key", json!("mine")),
        same(RESPONSES, "store", json!(true)),
        same(CLAUDE, "max_tokens", json!(7)),
        same(("anthropic", "", "m"), "temperature", json!(0.25)),
    ]
}

/// Returns the value that is sent without the option.
fn ours(request: &ChatRequest, case: &Case) -> Value {
    let without = Case { name: "x", own: Value::Null, sent: Value::Null, ..*case };
    body(request, &without)[case.name].clone()
}

#[test]
fn an_option_is_merged_into_our_field() {
    let request = everything();
    for case in merged() {
        let (sent, ours) = (body(&request, &case), ours(&request, &case));
        assert!(ours.is_object(), "{} has no `{}` to merge with", case.format, case.name);
        assert_eq!(sent[case.name], case.sent, "{} {}", case.format, case.name);
    }
    // Anthropic's models do not think if a tool is forced.
    let mut request = hi();
    request.thinking = High;
    let thinks = |own: Value, sent: Value| {
        let case = case(CLAUDE, "thinking", own, sent);
        let body = body(&request, &case);
        assert_eq!(body["thinking"], case.sent);
        body["output_config"].clone()
    };
    let effort = json!({"effort": "high"});
    let shown = json!({"type": "adaptive", "display": "omitted"});
    assert_eq!(thinks(json!({"display": "omitted"}), shown.clone()), effort);
    assert_eq!(thinks(shown.clone(), shown), effort);
    let disabled = json!({"type": "disabled"});
    assert_eq!(thinks(disabled.clone(), disabled), Value::Null, "another kind replaces ours");
}

#[test]
fn a_part_of_thinking_is_not_sent_where_nothing_thinks() {
    let mut request = hi();
    request.thinking = Off;
    for model in ["claude-opus-4-7", "claude-opus-5"] {
        let case = case(("anthropic", "", model), "thinking", json!({"display": "omitted"}), {
            ours(&request, &case(("anthropic", "", model), "thinking", Value::Null, Value::Null))
        });
        assert_eq!(body(&request, &case)["thinking"], case.sent, "{model}");
    }
}

#[test]
fn a_part_of_the_choice_of_tools_is_sent_wherever_tools_may_be_called() {
    let part = json!({"disable_parallel_tool_use": true});
    let sent = |request: &ChatRequest| {
        let case = case(CLAUDE, "tool_choice", part.clone(), Value::Null);
        body(request, &case)["tool_choice"].clone()
    };
    let with_type = |kind: &str| json!({"type": kind, "disable_parallel_tool_use": true});
    let mut request = with_tools(hi());
    assert_eq!(sent(&request), with_type("auto"));
    request.tool_choice = ToolChoice::Required;
    assert_eq!(sent(&request), with_type("any"));
    request.tool_choice = ToolChoice::None;
    assert_eq!(sent(&request), json!({"type": "none"}));
    assert_eq!(sent(&hi()), Value::Null);
    let older = ("anthropic", "", "claude-sonnet-4-20250514");
    let answer = body(&with_output(hi()), &case(older, "tool_choice", part, Value::Null));
    assert_eq!(answer["tool_choice"], with_type("any"), "the tool for answers");
}

#[test]
fn a_list_is_appended_to_ours() {
    let request = everything();
    for case in joined() {
        let (sent, ours) = (body(&request, &case), ours(&request, &case));
        let (ours, own) = (ours.as_array().unwrap(), case.own.as_array().unwrap());
        assert!(!ours.is_empty(), "{} has no `{}` to join", case.format, case.name);
        assert_eq!(sent[case.name], json!([&ours[..], &own[..]].concat()), "{}", case.name);
    }
    let same = json!(["reasoning.encrypted_content"]);
    let sent = body(&request, &case(RESPONSES, "include", same.clone(), Value::Null));
    assert_eq!(sent["include"], same, "nothing is in the list twice");
}

#[test]
fn any_other_option_replaces_our_field() {
    let mut request = everything();
    request.tool_choice = ToolChoice::Auto;
    for case in replaced() {
        if case.name == "temperature" {
            request.thinking = Off;
        }
        let (sent, ours) = (body(&request, &case), ours(&request, &case));
        assert!(!ours.is_null(), "{} has no `{}` to replace", case.format, case.name);
        assert_ne!(ours, case.sent, "{} {}", case.format, case.name);
        assert_eq!(sent[case.name], case.sent, "{} {}", case.format, case.name);
        request.thinking = High;
    }
}

#[test]
fn an_option_and_a_field_that_exclude_each_other_are_not_sent_together() {
    let request = everything();
    let sent = body(&request, &case(OPENAI, "max_tokens", json!(7), Value::Null));
    assert_eq!((sent.get("max_completion_tokens"), &sent["max_tokens"]), (None, &json!(7)));
    let own =
        json!({"thinkingConfig": {"thinkingBudget": 7}, "responseSchema": {"type": "STRING"}});
    let sent = body(&request, &case(GEMINI, "generationConfig", own, Value::Null));
    let config = &sent["generationConfig"];
    let thinking = json!({"thinkingBudget": 7, "includeThoughts": true});
    assert_eq!((&config["thinkingConfig"], config.get("responseJsonSchema")), (&thinking, None));
    let own = json!({"max_tokens": 2000});
    let sent = body(&request, &case(OPENROUTER, "reasoning", own.clone(), Value::Null));
    assert_eq!(sent["reasoning"], own);
}

#[test]
fn an_output_schema_is_sent_with_the_field_that_the_user_sets_beside_it() {
    let mut request = with_output(hi());
    request.output = Some(Arc::new(OutputSchema::new("Out", schema())));
    let effort = case(CLAUDE, "output_config", json!({"effort": "low"}), Value::Null);
    let config = body(&request, &effort)["output_config"].clone();
    assert_eq!(
        (&config["effort"], &config["format"]["type"]),
        (&json!("low"), &"json_schema".into())
    );
    let beside = with_output(with_tools(hi()));
    let retrieval = json!({"retrievalConfig": {"languageCode": "de"}});
    let older = ("gemini", "", "gemini-2.5-pro");
    let sent = body(&beside, &case(older, "toolConfig", retrieval, Value::Null));
    assert_eq!(sent["toolConfig"]["functionCallingConfig"]["mode"], "ANY", "the tool for answers");
}

#[test]
fn the_model_the_conversation_and_the_stream_are_not_options() {
    for (model, names) in [
        (OPENAI, ["model", "messages", "stream"]),
        (RESPONSES, ["model", "input", "stream"]),
        (CLAUDE, ["model", "messages", "stream"]),
        (GEMINI, ["contents", "contents", "contents"]),
    ] {
        for name in names {
            let case = case(model, name, json!("mine"), Value::Null);
            assert_eq!(body(&hi(), &case)[name], ours(&hi(), &case), "{name}");
        }
    }
}

/// Returns the names in the table of the design document, for each format: merged, joined and
/// replaced.
fn table() -> Vec<(&'static str, [BTreeSet<&'static str>; 3])> {
    let page = include_str!("../../../../docs/design/providers.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| format | merged"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let names = |cell: &'static str| cell.split('`').skip(1).step_by(2).collect::<BTreeSet<_>>();
    let row = |line: &'static str| {
        let cells: Vec<_> = line.split('|').map(names).collect();
        let [_, format, merged, joined, replaced, _] = cells.try_into().unwrap();
        (*format.first().unwrap(), [merged, joined, replaced])
    };
    rows.map(row).collect()
}

#[test]
fn the_table_of_options_has_a_case_for_each_name_and_each_field_that_is_written() {
    let table = table();
    assert_eq!(table.len(), 4);
    let sources = [
        ("openai-chat", include_str!("../../../src/formats/openai_chat/encode.rs")),
        ("openai-responses", include_str!("../../../src/formats/openai_responses/encode.rs")),
        ("anthropic", include_str!("../../../src/formats/anthropic/encode.rs")),
        ("gemini", include_str!("../../../src/formats/gemini/encode.rs")),
    ];
    for ((format, names), (known, source)) in table.iter().zip(sources) {
        assert_eq!(*format, known);
        for (names, cases) in names.iter().zip([merged(), joined(), replaced()]) {
            let mut tested: BTreeSet<_> =
                cases.iter().filter(|case| case.format == *format).map(|case| case.name).collect();
            if *format == "anthropic" && names.contains("thinking") {
                tested.insert("thinking"); // in a request of its own
            }
            assert_eq!(*names, tested, "{format}");
        }
        let squeezed: String = source.split_whitespace().collect();
        let written = ["fields.add(\"", "fields.add_list(\""]
            .into_iter()
            .flat_map(|call| squeezed.split(call).skip(1))
            .filter_map(|rest| rest.split('"').next());
        let missing: Vec<_> =
            written.filter(|name| !names.iter().any(|names| names.contains(name))).collect();
        assert!(missing.is_empty(), "{format}: {missing:?} are not in the table");
    }
}

#[test]
fn options_of_other_names_are_added() {
    let own = [("top_p", json!(0.9)), ("seed", json!(1))];
    let mut settings = Settings::new("m");
    settings.options.extend(own.clone().map(|(name, value)| (name.to_owned(), value)));
    let body: Value =
        serde_json::from_slice(&loopwright_providers::openai_chat::encode(&hi(), &settings))
            .unwrap();
    for (name, value) in own {
        assert_eq!(body[name], value);
    }
}
