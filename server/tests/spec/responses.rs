//! The statuses and the bodies of responses, and the frames of streams, against the OpenAPI
//! document.

use std::sync::Arc;

use loopwright_core::Principal;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::Question;
use loopwright_host::OperatorRules;
use loopwright_memory::long_term::{LongTerm, Scope};
use loopwright_server::Caller;
use serde_json::{Value, json};

use crate::api::{Api, Reader};

/// A server whose responses are compared with its document.
struct Documented {
    api: Api,
    document: Value,
}

impl Documented {
    async fn new(api: Api) -> Documented {
        let document = api.get("/api/openapi.json").await;
        Documented { api, document }
    }

    fn of(&self, api: Api) -> Documented {
        Documented { api, document: self.document.clone() }
    }

    fn check(&self, pointer: &str, value: &Value) {
        let schema = self.document.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        let components = &self.document["components"];
        let schema = json!({ "allOf": [schema], "components": components });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(value).map(|why| why.to_string()).collect();
        assert!(errors.is_empty(), "{pointer}: {errors:#?}\n{value}");
    }

    /// Sends a request to `route`, a path of the document, with these values for its parameters.
    /// Checks the response.
    async fn call(
        &self,
        (method, route): (&str, &str),
        values: &[(&str, &str)],
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut path = route.to_owned();
        let mut query = Vec::new();
        for (name, value) in values {
            let parameter = format!("{{{name}}}");
            match path.contains(&parameter) {
                true => path = path.replace(&parameter, value),
                false => query.push(format!("{name}={value}")),
            }
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let (status, response) = self.api.call(&method.to_uppercase(), &path, body).await;
        let at = format!("/paths/{}/{method}/responses/{status}", route.replace('/', "~1"));
        let described = self.document.pointer(&at);
        let described = described.unwrap_or_else(|| panic!("{at} is not described: {response}"));
        match described.get("content") {
            Some(_) => self.check(&format!("{at}/content/application~1json/schema"), &response),
            None => assert_eq!(response, json!(""), "{at} has no content"),
        }
        (status, response)
    }

    /// Sends a request that succeeds.
    async fn ok(
        &self,
        operation: (&str, &str),
        values: &[(&str, &str)],
        body: Option<Value>,
    ) -> Value {
        let (status, response) = self.call(operation, values, body).await;
        assert!((200..300).contains(&status), "{operation:?}: {status} {response}");
        response
    }

    async fn get(&self, route: &str, values: &[(&str, &str)]) -> Value {
        self.ok(("get", route), values, None).await
    }

    /// Checks the data of a frame of a stream.
    fn check_frame(&self, (method, route): (&str, &str), data: &Value) {
        let route = route.replace('/', "~1");
        let item = "content/text~1event-stream/itemSchema/properties/data/contentSchema";
        self.check(&format!("/paths/{route}/{method}/responses/200/{item}"), data);
    }
}

fn writes() -> Script {
    Script::new().say("I write.").call(
        "a",
        "write_file",
        r#"{"path": "new.txt", "content": "ten"}"#,
    )
}

/// C306: The results of operations conform to their schemas.
#[tokio::test]
async fn results_fit_their_schemas() {
    let server = Documented::new(Api::new([writes(), Script::text("Done.")])).await;
    for route in ["/healthz", "/readyz", "/api/agents", "/api/models", "/api/openapi.json"] {
        server.get(route, &[]).await;
    }
    server.get("/api/agents/{name}", &[("name", "coding")]).await;
    let created = server.ok(("post", "/api/sessions"), &[], Some(json!({ "name": "n" }))).await;
    let id = created["id"].as_str().unwrap();
    let message = json!({ "message": "Write." });
    server.ok(("post", "/api/sessions/{id}/prompt"), &[("id", id)], Some(message)).await;
    let mut frames = server.api.run(id, None).await;
    let of_session = ["", "/agent", "/actions", "/messages", "/history"];
    let read_all = async || {
        for route in of_session {
            let mut values = vec![("id", id)];
            if route == "/history" {
                values.push(("before", "1000"));
            }
            server.get(&format!("/api/sessions/{{id}}{route}"), &values).await;
        }
        for route in ["/api/sessions", "/api/actions", "/api/audit"] {
            server.get(route, &[]).await;
        }
        let found = server.get("/api/search", &[("q", "write")]).await;
        assert_ne!(found["hits"], json!([]));
    };
    read_all().await;

    let action = server.get("/api/actions", &[]).await["actions"][0].clone();
    let values = [("id", id), ("call", action["call"].as_str().unwrap())];
    let route = "/api/sessions/{id}/actions/{call}";
    let preview = server.get(&format!("{route}/preview"), &values).await;
    assert!(preview["diff"].as_str().unwrap().contains("+ten"), "{preview}");
    let approve = json!({ "digest": action["digest"], "decision": "approve" });
    server.ok(("post", route), &values, Some(approve)).await;
    let last = frames.iter().rev().find_map(|frame| frame.id);
    frames.extend(server.api.run(id, last).await);
    for frame in &frames {
        server.check_frame(("get", "/api/sessions/{id}/events"), &frame.data);
    }
    read_all().await;

    let rename = json!({ "name": "renamed" });
    server.ok(("patch", "/api/sessions/{id}"), &[("id", id)], Some(rename)).await;
    let route = ("post", "/api/sessions/{id}/fork");
    let fork = server.ok(route, &[("id", id)], Some(json!({}))).await;
    let fork = [("id", fork["id"].as_str().unwrap())];
    server.ok(("delete", "/api/sessions/{id}"), &fork, None).await;
}

/// C306: The bodies of decisions, and the questions that they answer, conform to the schema.
#[tokio::test]
async fn decisions_and_questions_fit_their_schemas() {
    let server = Documented::new(Api::new([])).await;
    for question in [
        Question::choice("Which?", ["a", "b"]),
        Question::several("Which?", ["a", "b"]),
        Question::text("Which?"),
        Question::json::<Vec<u32>>("Which?"),
        Question::secret("Which?"),
    ] {
        server.check("/components/schemas/Question", &serde_json::to_value(question).unwrap());
    }
    let body = "/components/schemas/DecisionBody";
    server.check(body, &json!({ "digest": "d", "decision": "approve" }));
    for field in ["data", "content"] {
        server.check(body, &json!({ "digest": "d", "decision": "provide", (field): "new.txt" }));
    }
}

/// C306: The frames of all streams conform to their schemas.
#[tokio::test]
async fn frames_fit_their_schemas() {
    let replies = [Script::text("Hello."), writes(), Script::text("Done.")];
    let server = Documented::new(Api::new(replies)).await;
    let chat = ("post", "/api/agent-chat");
    let body = json!({ "message": "Hello", "workDir": ".", "llmConfig": { "model": "m" } });
    let (status, frames) = server.api.post(chat.1, body).await;
    assert_eq!(status, 200, "{frames}");
    let mut kinds = Vec::new();
    for frame in frames.as_str().unwrap().lines().filter_map(|line| line.strip_prefix("data:")) {
        let data: Value = serde_json::from_str(frame).unwrap();
        server.check_frame(chat, &data);
        kinds.push(data["type"].clone());
    }
    assert_eq!(kinds.last(), Some(&json!("complete")), "{kinds:?}");

    let id = server.api.session(json!({})).await;
    let body = json!({ "follow": [
        { "feed": "f", "session": id, "tree": true }, { "feed": "g", "session": "none" },
    ] });
    let mut feeds = server.api.stream("/api/events", body).await;
    let mut inbox = server.api.stream_of("/api/inbox/events").await;
    let until = async |reader: &mut Reader, operation: (&str, &str), last: &str| {
        let mut kinds = Vec::new();
        loop {
            let frame = reader.next().await.unwrap();
            server.check_frame(operation, &frame.data);
            let is_last =
                [&frame.data["type"], &frame.data["event"]["type"]].contains(&&json!(last));
            kinds.push(frame.event);
            if is_last {
                return kinds;
            }
        }
    };
    server.api.say(&id, "Write.").await;
    let kinds = until(&mut feeds, ("post", "/api/events"), "agent_end").await;
    for kind in ["stream", "open", "error", "event"] {
        assert!(kinds.iter().any(|other| other == kind), "no {kind} in {kinds:?}");
    }
    let stream = ("get", "/api/inbox/events");
    until(&mut inbox, stream, "pending").await;
    let action = server.api.get("/api/actions").await["actions"][0].clone();
    let deny = json!({ "digest": action["digest"], "decision": "deny" });
    let path = format!("/api/sessions/{id}/actions/{}", action["call"].as_str().unwrap());
    assert_eq!(server.api.post(&path, deny).await.0, 200);
    until(&mut inbox, stream, "resolved").await;
}

/// C306: The responses of `/api/memory` conform to their schemas.
#[tokio::test]
async fn facts_fit_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let fact = memory.remember(&Scope::user("ann"), "Ann has nine sheep.").await.unwrap();
    let api = Api::remembering(&memory, ScriptedModel::new([]), |builder| {
        builder.principal(Principal::new("ann"))
    });
    let server = Documented::new(api).await;
    let facts = server.get("/api/memory", &[]).await;
    assert_eq!(facts["facts"][0]["text"], "Ann has nine sheep.");
    let id = fact.id.to_string();
    for status in [204, 404] {
        let route = ("delete", "/api/memory/{id}");
        assert_eq!(server.call(route, &[("id", &id)], None).await.0, status);
    }
    server.ok(("delete", "/api/memory"), &[], None).await;
}

/// C306: each operation lists the statuses of its refusals, and none has a response for all others.
#[tokio::test]
async fn refusals_have_statuses_of_the_document() {
    let server = Documented::new(Api::new([writes()])).await;
    let any = &server.document["paths"]["/healthz"]["get"]["responses"]["403"];
    for (path, methods) in server.document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert_eq!(operation["responses"].get("default"), None, "{method} {path}");
        }
    }
    let ann = server.api.as_user("ann");
    let id = ann.session(json!({})).await;
    ann.say(&id, "Write.").await;
    ann.run(&id, None).await;
    let reader = Caller::new(Principal::new("bob")).role("reader");
    let reader = server.of(server.api.as_caller(reader));
    let decision = json!({ "digest": "d", "decision": "approve" });
    let message = json!({ "message": "Go." });
    for (method, route, body) in [
        ("patch", "", json!({ "name": "n" })),
        ("delete", "", json!({})),
        ("post", "/fork", json!({})),
        ("post", "/prompt", message.clone()),
        ("post", "/steer", message.clone()),
        ("post", "/follow-up", message),
        ("post", "/continue", json!({})),
        ("post", "/signal", json!({ "key": "k" })),
        ("post", "/abort", json!({})),
        ("post", "/compact", json!({})),
        ("post", "/actions/{call}", decision),
    ] {
        let route = format!("/api/sessions/{{id}}{route}");
        let values = [("id", &*id), ("call", "a")];
        let values = if route.contains("{call}") { &values[..] } else { &values[..1] };
        let (status, refused) = reader.call((method, &route), values, Some(body.clone())).await;
        assert_eq!(status, 403, "{method} {route}: {refused}");
        let described = &server.document["paths"][&route][method]["responses"]["403"];
        assert_ne!(described, any, "{method} {route} has its own reason");
        let hidden = server.of(server.api.as_user("bob"));
        assert_eq!(hidden.call((method, &route), values, Some(body)).await.0, 404);
    }
    let wrong = json!({ "model": 1 });
    assert_eq!(server.call(("post", "/api/sessions"), &[], Some(wrong)).await.0, 400);
    let route = "/api/sessions/{id}/actions/{call}/preview";
    let none = [("id", &*id), ("call", "none")];
    assert_eq!(server.call(("get", route), &none, None).await.0, 404);
    assert_eq!(server.call(("get", "/api/agents/{name}"), &[("name", "x")], None).await.0, 404);
}

/// C306: a number that the document does not allow is refused.
#[tokio::test]
async fn numbers_above_the_greatest_one_are_refused() {
    let server = Documented::new(Api::new([])).await;
    let id = server.api.session(json!({})).await;
    let (greatest, above) = ("9007199254740991", "9007199254740992");
    let events = ("get", "/api/sessions/{id}/events");
    for name in ["after", "last"] {
        let (status, refused) = server.call(events, &[("id", &id), (name, above)], None).await;
        assert_eq!(status, 400, "{name}: {refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(name), "{refused}");
    }
    assert_eq!(server.call(events, &[("id", &id), ("after", greatest)], None).await.0, 409);
    let Err((status, refused)) = server.api.try_events(&id, Some(1 << 53)).await else {
        panic!("the header has an illegal number")
    };
    assert_eq!(status, 400, "{refused}");
    let history = ("get", "/api/sessions/{id}/history");
    assert_eq!(server.call(history, &[("id", &id), ("before", above)], None).await.0, 400);
    assert_eq!(server.call(history, &[("id", &id), ("before", greatest)], None).await.0, 200);
}

/// C306: Requests that the operator's rules do not allow are refused with a status of the document.
#[tokio::test]
async fn refusals_of_the_operator_have_statuses_of_the_document() {
    let store = Arc::new(InMemoryStore::new());
    let older = Api::over(store.clone(), []);
    let id = older.session(json!({ "model": "openai/gpt-5-pro" })).await;
    let rules = OperatorRules::open().models(["openai/gpt-4*"]).unwrap();
    let api = Api::with(store, [Script::text("No.")], |server| server.rules(rules));
    let server = Documented::new(api).await;
    let expensive = json!({ "model": "openai/gpt-5-pro" });
    let config = json!({ "model": "openai/gpt-5-pro", "apiKey": "k" });
    let chat = json!({ "message": "Go.", "workDir": ".", "llmConfig": config });
    for (method, route, body) in [
        ("post", "/api/sessions", Some(expensive.clone())),
        ("post", "/api/agent-chat", Some(chat)),
        ("patch", "/api/sessions/{id}", Some(json!({ "model": "anthropic/claude" }))),
        ("post", "/api/sessions/{id}/fork", Some(json!({}))),
        ("get", "/api/sessions/{id}/agent", None),
        ("post", "/api/sessions/{id}/prompt", Some(json!({ "message": "Go." }))),
    ] {
        let values = if route.contains("{id}") { vec![("id", &*id)] } else { Vec::new() };
        let (status, refused) = server.call((method, route), &values, body).await;
        assert_eq!(status, 403, "{method} {route}: {refused}");
    }
}
