//! The OpenAI API: access, refusals and their form, and the end of runs. The official clients are
//! tested in `tests/clients`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use loopwright_core::limits::Budget;
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::Usage;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, Principal, ToolError, tool_fn};
use loopwright_patterns::PiPattern;
use loopwright_server::{Access, AccessPolicy, Caller, Server, ServerBuilder};
use serde_json::{Value, json};

use crate::api::{Api, scripted};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn chat(message: &str) -> Value {
    json!({ "model": "coding", "messages": [{ "role": "user", "content": message }] })
}

fn streamed(message: &str) -> Value {
    let mut body = chat(message);
    body["stream"] = true.into();
    body
}

fn writes() -> Script {
    Script::new().call("a", "write_file", r#"{"path": "new.txt", "content": "ten"}"#)
}

fn api(replies: impl IntoIterator<Item = Script>) -> Api {
    Api::with(Arc::new(InMemoryStore::new()), replies, |builder| builder)
}

fn configured(replies: Vec<Script>, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Api {
    Api::with(Arc::new(InMemoryStore::new()), replies, set)
}

/// Checks the status, the code and the field of an error.
fn refused((status, body): (u16, Value), expected: (u16, &str, Value)) {
    let error = &body["error"];
    assert_eq!(
        (status, &error["code"], &error["param"]),
        (expected.0, &json!(expected.1), &expected.2),
        "{body}"
    );
    assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
}

/// C373: Calls that change something run only if the operator has approved their tools, whatever
/// the client sends.
#[tokio::test]
async fn only_what_the_operator_has_approved_runs() {
    let replies = || vec![writes(), Script::text("Done.")];
    for (approved, runs) in [(None, false), (Some("write_file"), true), (Some("all"), true)] {
        let api = configured(replies(), |builder| {
            let mut defaults = scripted();
            defaults.approve = approved.map(|tool| vec![tool.to_owned()]);
            builder.defaults(defaults)
        });
        let mut body = chat("Write.");
        body["approve"] = json!(["write_file"]);
        let (status, answer) = api.post(CHAT, body).await;
        assert_eq!((status, &answer["choices"][0]["message"]["content"]), (200, &json!("Done.")));
        assert_eq!(api.root.path().join("new.txt").exists(), runs, "{approved:?}");
    }
}

/// C373: An agent that still waits for an approval ends with an error, and does not hang.
#[tokio::test]
async fn a_run_that_waits_for_an_approval_ends_with_an_error() {
    let sell = tool_fn("sell", "Sells.", async |(): (), _| Ok::<_, ToolError>("sold".to_owned()));
    let replies = (0..3).map(|_| Script::new().call("a", "sell", "null"));
    let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern).tool(sell);
    let api = Api::running(agent.build().unwrap());
    let mut body = chat("Sell.");
    body["model"] = "agent".into();
    refused(api.post(CHAT, body.clone()).await, (500, "awaiting_action", Value::Null));
    body["stream"] = true.into();
    let (status, frames) = api.post(CHAT, body).await;
    let frames = frames.as_str().unwrap();
    assert!(status == 200 && frames.contains("cannot be given here"), "{frames}");
    assert!(frames.ends_with("data: [DONE]\n\n"), "{frames}");
    let (_, frames) =
        api.post(RESPONSES, json!({ "model": "agent", "input": "Sell.", "stream": true })).await;
    assert!(frames.as_str().unwrap().contains("event: response.failed\n"), "{frames}");
}

/// C425: a schema that is too large is the client's error, with the reason.
#[tokio::test]
async fn a_schema_that_is_too_large_is_refused() {
    let schema = json!({ "type": "object", "anyOf": vec![json!({}); 6_000] });
    let format = json!({ "name": "x", "schema": schema });
    let mut body = chat("Count.");
    body["response_format"] = json!({ "type": "json_schema", "json_schema": format });
    let (status, answer) = api([]).post(CHAT, body).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.contains("more than 5000 subschemas"), "{status} {message}");
}

/// C374: a client that disconnects ends its run, and its permit is released, streamed or not.
#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_ends_its_run() {
    for body in [chat("Talk."), streamed("Talk.")] {
        let replies = vec![Script::new().say("half").hang(), Script::text("Done.")];
        let api = configured(replies, |builder| builder.max_runs(1, 1));
        match body["stream"] == true {
            true => drop(api.stream(CHAT, body).await),
            false => {
                let wait = tokio::time::timeout(Duration::from_secs(5), api.post(CHAT, body));
                assert!(wait.await.is_err(), "the run hangs");
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The permit is released when the session is idle.
        let (status, answer) = api.post(CHAT, chat("More.")).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["choices"][0]["message"]["content"], "Done.");
    }
}

/// C374: A server that shuts down stops the run after the grace period and reports this.
#[tokio::test(start_paused = true)]
async fn a_shutdown_stops_the_run_with_an_error() {
    let api = api([Script::new().say("half").hang(), Script::new().hang()]);
    let whole = api.post(CHAT, chat("Talk."));
    let stream = api.post(RESPONSES, json!({ "model": "coding", "input": "a", "stream": true }));
    let (whole, (_, frames), ()) = tokio::join!(whole, stream, api.drain(Duration::from_secs(7)));
    refused(whole, (503, "draining", Value::Null));
    assert!(frames.as_str().unwrap().contains("The server shuts down"), "{frames}");
    refused(api.post(CHAT, chat("More.")).await, (503, "draining", Value::Null));
}

/// C375: The policy, the quota of runs and the daily budget apply here too.
#[tokio::test(start_paused = true)]
async fn the_rules_of_the_server_hold() {
    struct NotBob;
    #[async_trait::async_trait]
    impl AccessPolicy for NotBob {
        async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool {
            let bob = Principal::new("bob");
            !matches!(access, Access::Create(_)) || caller.principal() != Some(&bob)
        }
    }
    let reply = || Script::text("Hi.").usage(Usage::new(9, 1));
    let api = configured(vec![reply(), reply(), Script::new().hang()], |builder| {
        builder.policy(NotBob).daily_budget(Budget::default().tokens(20)).max_runs(1, 1)
    });
    let (ann, bob) = (api.as_user("ann"), api.as_user("bob"));
    refused(bob.post(CHAT, chat("Hello")).await, (403, "forbidden", Value::Null));
    for _ in 0..2 {
        assert_eq!(ann.post(CHAT, chat("Hello")).await.0, 200);
        tokio::time::sleep(Duration::from_secs(1)).await; // its usage is counted
    }
    refused(ann.post(CHAT, chat("Hello")).await, (429, "rate_limit_exceeded", Value::Null));
    let _reader = api.stream(CHAT, streamed("Hello")).await;
    refused(api.post(CHAT, chat("Hello")).await, (429, "rate_limit_exceeded", Value::Null));
}

/// C376: All refusals have the form of the API, including the server's own.
#[tokio::test]
async fn refusals_have_the_form_of_the_api() {
    let api = configured(vec![], |builder| builder.max_body(20_000));
    for (path, body, expected) in [
        (CHAT, json!({}), (400, "bad_request", Value::Null)),
        (CHAT, json!([]), (400, "bad_request", Value::Null)),
        (
            CHAT,
            json!({ "model": "wolf", "messages": chat("a")["messages"] }),
            (404, "model_not_found", json!("model")),
        ),
        (RESPONSES, json!({ "model": "coding", "input": 1 }), (400, "bad_request", json!("input"))),
        (
            RESPONSES,
            json!({ "model": "coding", "input": "a".repeat(20_000) }),
            (413, "too_large", Value::Null),
        ),
        ("/v1/embeddings", json!({}), (404, "not_found", Value::Null)),
        ("/v1/models", json!({}), (405, "bad_request", Value::Null)),
    ] {
        refused(api.post(path, body).await, expected);
    }
    let text = Request::post(CHAT).header(header::CONTENT_TYPE, "text/plain");
    let request = text.body(Body::from(chat("a").to_string())).unwrap();
    refused(api.respond(request).await, (415, "bad_request", Value::Null));
    let nobody = api.as_user("");
    refused(nobody.call("GET", "/v1/models", None).await, (403, "forbidden", Value::Null));
    let (status, body) = api.post("/api/agent-chat", json!({})).await;
    assert_eq!((status, &body["error"]["kind"]), (400, &json!("bad_request")));
}

/// C306: The API's responses conform to the OpenAPI document.
#[tokio::test]
async fn answers_fit_their_schemas() {
    let store = Arc::new(InMemoryStore::new());
    let agent = || {
        let count =
            tool_fn("count", "Counts.", async |(): (), _| Ok::<_, ToolError>("9".to_owned()));
        let replies =
            [Script::new().think("Hm.", None).call("a", "count", "null"), Script::text("9")];
        let model = ScriptedModel::new(replies);
        GenericAgent::builder(model, PiPattern).tool(count).approve_all().build().unwrap()
    };
    let names = ["a", "b", "c", "d"];
    let server = names
        .iter()
        .fold(Server::builder(store.clone()), |server, name| server.agent(*name, agent()));
    let api = Api::serving(store, server.build().unwrap());
    let document = api.get("/api/openapi.json").await;
    let check = |path: &str, method: &str, content: &str, value: &Value| {
        let operation = &document["paths"][path][method]["responses"]["200"]["content"][content];
        let schema = match content {
            "application/json" => &operation["schema"],
            // The stream of chunks ends with a text that is not JSON.
            _ => match &operation["itemSchema"]["properties"]["data"] {
                data if data.get("anyOf").is_some() => &data["anyOf"][1]["contentSchema"],
                data => &data["contentSchema"],
            },
        };
        assert!(schema.is_object(), "{path}: {operation}");
        let schema = json!({ "allOf": [schema], "components": document["components"] });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(value).map(|why| why.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:#?}\n{value}");
    };
    let message = json!([{ "role": "user", "content": "Count." }]);
    let reasoning = json!({ "summary": "auto" });
    for (path, agents, mut body) in [
        (CHAT, ["a", "b"], json!({ "messages": message })),
        (RESPONSES, ["c", "d"], json!({ "input": message, "reasoning": reasoning })),
    ] {
        body["model"] = agents[0].into();
        let (status, answer) = api.post(path, body.clone()).await;
        assert_eq!(status, 200, "{answer}");
        check(path, "post", "application/json", &answer);
        (body["model"], body["stream"]) = (agents[1].into(), true.into());
        let (_, frames) = api.post(path, body).await;
        let data = frames.as_str().unwrap().lines().filter_map(|line| line.strip_prefix("data: "));
        let frames: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
        assert!(frames.len() > 2);
        frames.iter().for_each(|frame| check(path, "post", "text/event-stream", frame));
    }
    check("/v1/models", "get", "application/json", &api.get("/v1/models").await);
    check("/v1/models/{model}", "get", "application/json", &api.get("/v1/models/a").await);
}
