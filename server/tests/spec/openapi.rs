//! The OpenAPI document: whole, and true.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::Api;

fn visit(value: &Value, at: &str, see: &mut dyn FnMut(&str, &Value)) {
    see(at, value);
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| visit(value, &format!("{at}/{key}"), see))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| visit(value, &format!("{at}/{i}"), see))
        }
        _ => {}
    }
}

/// All references lead somewhere, each schema is one, and all schemas are used.
#[tokio::test]
async fn the_document_is_whole() {
    let document = Api::new([]).get("/api/openapi.json").await;
    assert_eq!(document["openapi"], "3.2.0");
    let mut used = BTreeSet::new();
    visit(&document, "", &mut |at, value| {
        let Some(to) = value.get("$ref").and_then(Value::as_str) else {
            return;
        };
        assert!(
            document.pointer(to.trim_start_matches('#')).is_some(),
            "{at} leads to {to}, which is not there"
        );
        used.insert(to.rsplit('/').next().unwrap().to_owned());
    });
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(used.contains(name), "nobody uses {name}");
        jsonschema::meta::validate(schema).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            let named = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|p| p["in"] == "path")
                .count();
            assert_eq!(named, path.matches('{').count(), "{path}");
            assert!(
                operation["responses"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .any(|status| status.starts_with('2'))
            );
        }
    }
}

/// Each operation is served: none is answered with "there is nothing here" or "not this method".
/// And what is served is in the document.
#[tokio::test]
async fn every_route_is_listed_and_served() {
    let api = Api::new([]);
    let document = api.get("/api/openapi.json").await;
    let id = api.session(json!({})).await;
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            operations.insert(format!("{method} {path}"));
            if method == "delete" || path.ends_with("/events") {
                continue;
            }
            let path = path.replace("{id}", &id).replace("{call}", "none");
            let (status, answer) = api.call(&method.to_uppercase(), &path, Some(json!({}))).await;
            assert!(
                status != 405 && answer["error"]["message"] != nothing_here(),
                "{method} {path}: {status} {answer}"
            );
        }
    }
    // As the sources have them: `.route("/path", get(…).post(…))`.
    let mut served = BTreeSet::new();
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in rust_files(&sources) {
        let text = std::fs::read_to_string(file).unwrap();
        for route in text.split(".route(\"").skip(1) {
            let (path, rest) = route.split_once('"').unwrap();
            let line = rest.lines().next().unwrap();
            let found: Vec<&str> = ["get", "post", "delete"]
                .into_iter()
                .filter(|method| line.contains(&format!("{method}(")))
                .collect();
            assert!(!found.is_empty(), "no method in {line}");
            served.extend(found.iter().map(|method| format!("{method} {path}")));
        }
    }
    assert_eq!(operations, served);
}

fn nothing_here() -> Value {
    json!("There is nothing at this address; /api/openapi.json lists what there is.")
}

fn rust_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| rust_files(folder))).collect()
}

/// What the routes answer fits what the document says of it.
#[tokio::test]
async fn answers_fit_their_schemas() {
    use loopwright_core::testing::Script;
    let call = Script::new().say("I ask.").call(
        "a",
        "write_file",
        r#"{"path": "new.txt", "content": "ten"}"#,
    );
    let api = Api::new([call, Script::text("Done.")]);
    let document = api.get("/api/openapi.json").await;
    let fits = |pointer: &str, value: &Value| {
        let mut schema = document.pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(value).map(|why| why.to_string()).collect();
        assert!(errors.is_empty(), "{pointer}: {errors:#?}\n{value}");
    };
    let answer = |method: &str, path: &str, status: u16| {
        let path = path.replace('/', "~1");
        format!("/paths/{path}/{method}/responses/{status}/content/application~1json/schema")
    };
    let id = api.session(json!({ "name": "n" })).await;
    api.say(&id, "Write.").await;
    let mut told = api.run(&id, None).await;
    for path in ["/api/sessions", "/api/actions", "/healthz"] {
        fits(&answer("get", path, 200), &api.get(path).await);
    }
    for path in ["/api/sessions/{id}", "/api/sessions/{id}/actions", "/api/sessions/{id}/messages"]
    {
        fits(&answer("get", path, 200), &api.get(&path.replace("{id}", &id)).await);
    }
    let action = api.get("/api/actions").await["actions"][0].clone();
    let path = format!("/api/sessions/{id}/actions/{}", action["call"].as_str().unwrap());
    let approve = json!({ "digest": action["digest"], "decision": "approve", "by": "Ann" });
    fits("/components/schemas/Answer", &approve);
    let (status, decided) = api.post(&path, approve).await;
    assert_eq!(status, 200, "{decided}");
    fits(&answer("post", "/api/sessions/{id}/actions/{call}", 200), &decided);
    let last = told.iter().rev().find_map(|frame| frame.id);
    told.extend(api.run(&id, last).await);
    for frame in &told {
        fits("/components/schemas/Envelope", &frame.data);
    }
    fits(
        &answer("get", "/api/sessions/{id}/messages", 200),
        &api.get(&format!("/api/sessions/{id}/messages")).await,
    );
    let (status, refused) = api.post("/api/sessions", json!({ "model": 1 })).await;
    fits(&answer("post", "/api/sessions", status), &refused);
}

/// A number is no type of a piece, whatever serde makes of one.
#[tokio::test]
async fn a_piece_of_a_result_has_its_type_by_name() {
    let api = Api::new([]);
    let id = api.session(json!({})).await;
    let answer =
        json!({ "digest": "d", "decision": "deny", "content": [{ "type": 0, "text": "" }] });
    let (status, refused) = api.post(&format!("/api/sessions/{id}/actions/a"), answer).await;
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/content")), "{refused}");
}
