//! The OpenAPI document: complete, and correct.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::Api;

fn visit(value: &Value, at: &str, visitor: &mut dyn FnMut(&str, &Value)) {
    visitor(at, value);
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| visit(value, &format!("{at}/{key}"), visitor))
        }
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(i, value)| visit(value, &format!("{at}/{i}"), visitor)),
        _ => {}
    }
}

/// All references resolve, each schema is valid, and all schemas are used.
#[tokio::test]
async fn the_document_is_complete() {
    let document = Api::new([]).get("/api/openapi.json").await;
    assert_eq!(document["openapi"], "3.2.0");
    let mut used = BTreeSet::new();
    visit(&document, "", &mut |at, value| {
        let Some(to) = value.get("$ref").and_then(Value::as_str) else {
            return;
        };
        assert!(
            document.pointer(to.trim_start_matches('#')).is_some(),
            "{at} refers to {to}, which does not exist"
        );
        used.insert(to.rsplit('/').next().unwrap().to_owned());
    });
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(used.contains(name), "{name} is not used");
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

/// Each operation of the document is served, and each route is in the document.
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
            let path =
                path.replace("{id}", &id).replace("{call}", "none").replace("{schedule}", "s");
            let (status, body) = api.call(&method.to_uppercase(), &path, Some(json!({}))).await;
            assert!(
                status != 405 && body["error"]["message"] != no_route(),
                "{method} {path}: {status} {body}"
            );
        }
    }
    // As in the sources: `.route("/path", get(…).post(…))`.
    let mut served = BTreeSet::new();
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in rust_files(&sources) {
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let text = code.collect::<Vec<_>>().join("\n");
        for route in text.split(".route(\"").skip(1) {
            let (path, rest) = route.split_once('"').unwrap();
            let line = rest.lines().next().unwrap();
            let methods: Vec<&str> = ["get", "post", "put", "patch", "delete"]
                .into_iter()
                .filter(|method| line.contains(&format!("{method}(")))
                .collect();
            assert!(!methods.is_empty(), "no method in {line}");
            served.extend(methods.iter().map(|method| format!("{method} {path}")));
        }
    }
    assert_eq!(operations, served);
}

fn no_route() -> Value {
    json!("There is nothing at this address; /api/openapi.json lists what there is.")
}

fn rust_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| rust_files(folder))).collect()
}

/// A number is not the type of a part, although serde would accept it.
#[tokio::test]
async fn a_part_of_a_result_has_its_type_by_name() {
    let api = Api::new([]);
    let id = api.session(json!({})).await;
    let body = json!({ "digest": "d", "decision": "deny", "content": [{ "type": 0, "text": "" }] });
    let (status, refused) = api.post(&format!("/api/sessions/{id}/actions/a"), body).await;
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/content")), "{refused}");
}
