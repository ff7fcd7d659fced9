//! `GET /api/openapi.json`: what the routes take and give. The schemas are those of the types that
//! the routes use.

mod routes;

use axum::routing::get;
use axum::{Json, Router};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::config::Server;
use crate::error::Refused;

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/openapi.json", get(async || Json(document())))
}

/// The document, OpenAPI 3.2: the first that can say what the events of a stream are.
pub(crate) fn document() -> Value {
    let mut document = Document::new();
    routes::all(&mut document);
    document.finish()
}

struct Document {
    takes: SchemaGenerator,
    gives: SchemaGenerator,
    paths: Map<String, Value>,
}

/// One method of one path, while it is described.
struct Operation<'a> {
    document: &'a mut Document,
    path: &'static str,
    method: &'static str,
    value: Value,
}

impl Document {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let (takes, gives) = (settings.clone().for_deserialize(), settings.for_serialize());
        Document { takes: takes.into(), gives: gives.into(), paths: Map::new() }
    }

    /// An operation. What is in braces in the path is a text.
    fn operation(
        &mut self,
        method: &'static str,
        path: &'static str,
        summary: &str,
    ) -> Operation<'_> {
        let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let parameters: Vec<Value> = names
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let default = json!({
            "description": "Refused, or failed.",
            "content": { "application/json": { "schema": self.gives.subschema_for::<Refused>() } },
        });
        let value = json!({
            "summary": summary,
            "operationId": operation_id(method, path),
            "parameters": parameters,
            "responses": { "default": default },
        });
        Operation { document: self, path, method, value }
    }

    fn finish(mut self) -> Value {
        // A type that is both taken and given has the same schema for both, or another name.
        let mut schemas = self.takes.take_definitions(true);
        schemas.append(&mut self.gives.take_definitions(true));
        json!({
            "openapi": "3.2.0",
            "info": {
                "title": "loopwright",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "An agent over HTTP: one request and its events, or live sessions.",
                "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "security": [{}, { "token": [] }],
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
        })
    }
}

impl Operation<'_> {
    /// Takes a body of this type.
    fn takes<T: JsonSchema>(mut self) -> Self {
        let schema = self.document.takes.subschema_for::<T>();
        self.value["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        self.refuses(&[
            (413, "The body is too large."),
            (415, "The body is not JSON."),
            (429, "Too much comes at once, of this client or of all."),
        ])
    }

    /// Takes a parameter that may be left out.
    fn may_take(mut self, place: &str, name: &str, schema: Value, description: &str) -> Self {
        let parameter =
            json!({ "name": name, "in": place, "schema": schema, "description": description });
        if let Some(parameters) = self.value["parameters"].as_array_mut() {
            parameters.push(parameter);
        }
        self
    }

    /// Gives JSON of this type.
    fn gives<T: JsonSchema>(mut self, status: u16, description: &str) -> Self {
        let schema = self.document.gives.subschema_for::<T>();
        self.value["responses"][status.to_string()] = json!({ "description": description, "content": { "application/json": { "schema": schema } } });
        self
    }

    /// Gives events, the data of each of this type, or of one of these.
    fn streams<T: JsonSchema>(mut self, description: &str, others: &[Value]) -> Self {
        let schema = self.document.gives.subschema_for::<T>().to_value();
        let any = json!({ "anyOf": ([&[schema], others].concat()) });
        let data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": any });
        let stream = json!({ "itemSchema": { "type": "object", "properties": { "data": data }, "required": ["data"] } });
        self.value["responses"]["200"] =
            json!({ "description": description, "content": { "text/event-stream": stream } });
        self
    }

    /// Gives text of this type.
    fn gives_text(mut self, kind: &str, description: &str) -> Self {
        self.value["responses"]["200"] = json!({ "description": description, "content": { kind: { "schema": { "type": "string" } } } });
        self
    }

    /// Gives nothing.
    fn gives_nothing(mut self, status: u16, description: &str) -> Self {
        self.value["responses"][status.to_string()] = json!({ "description": description });
        self
    }

    /// Answers with an error in these cases.
    fn refuses(mut self, cases: &[(u16, &str)]) -> Self {
        let schema = self.document.gives.subschema_for::<Refused>();
        for (status, description) in cases {
            self.value["responses"][status.to_string()] = json!({ "description": description, "content": { "application/json": { "schema": schema } } });
        }
        self
    }

    fn add(self) {
        let path = self.document.paths.entry(self.path).or_insert_with(|| json!({}));
        path[self.method] = self.value;
    }
}

fn operation_id(method: &str, path: &str) -> String {
    let words = path
        .split(['/', '-', '.'])
        .filter(|word| !word.is_empty())
        .map(|word| word.trim_matches(['{', '}']));
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}
