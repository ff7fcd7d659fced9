//! A builder of OpenAPI documents.

use loopwright_protocols::openai;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::routes::page_query::{DEFAULT_LIMIT, MAX_LIMIT};

/// The refusals of any request. An operation with its own reasons for one of these statuses
/// replaces the description.
const ANY_REQUEST: [(u16, &str); 6] = [
    (400, "The request has not one `Host` header, or its body is not complete."),
    (403, "The server does not accept the `Host`, or the page that sends the request."),
    (413, "The body is too large."),
    (429, "There are too many connections or large bodies at once, of this client or of all."),
    (431, "The headers and the address are too large."),
    (500, "The server failed; its log says why."),
];
/// The operations without a token.
const PUBLIC: [&str; 4] = [
    "/healthz",
    "/readyz",
    "/.well-known/agent-card.json",
    "/a2a/{agent}/.well-known/agent-card.json",
];
/// The refusals of any request that needs a token.
const WITH_TOKEN: [(u16, &str); 2] = [
    (401, "The token is missing or wrong; `WWW-Authenticate` says which."),
    (503, "The keys of the issuer of tokens cannot be read now."),
];

/// A document under construction: OpenAPI 3.2, the first version that can describe the events of a
/// stream.
pub(super) struct Document {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
    paths: Map<String, Value>,
    /// Component properties of any type, each with a schema that its values can have: the
    /// component, the property, the schema.
    possible: Vec<(&'static str, &'static str, Value)>,
}

/// An operation under construction: one method of one path.
pub(super) struct Operation<'a> {
    document: &'a mut Document,
    path: &'static str,
    method: &'static str,
    value: Value,
}

impl Document {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Document {
            requests: settings.clone().for_deserialize().into(),
            responses: settings.for_serialize().into(),
            paths: Map::new(),
            possible: Vec::new(),
        }
    }

    /// Adds a type that the values of an untyped property can have.
    pub(super) fn can_be<T: JsonSchema>(
        &mut self,
        component: &'static str,
        property: &'static str,
    ) {
        let schema = self.responses.subschema_for::<T>().to_value();
        self.possible.push((component, property, schema));
    }

    /// Starts an operation. Each parameter in braces in the path is a string.
    pub(super) fn operation(
        &mut self,
        method: &'static str,
        path: &'static str,
        summary: &str,
    ) -> Operation<'_> {
        let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let parameters: Vec<Value> = names
            .map(|name| {
                let schema = json!({ "type": "string" });
                json!({ "name": name, "in": "path", "required": true, "schema": schema })
            })
            .collect();
        let value = json!({
            "summary": summary,
            "operationId": operation_id(method, path),
            "parameters": parameters,
            "responses": {},
        });
        let mut operation = Operation { document: self, path, method, value }.errors(&ANY_REQUEST);
        match PUBLIC.contains(&path) {
            true => {
                operation.value["security"] = json!([{}]);
                operation
            }
            false => operation.errors(&WITH_TOKEN),
        }
    }

    /// Returns the finished document.
    pub(super) fn finish(mut self) -> Value {
        // A type of both requests and responses has one schema for both, or two names.
        let mut schemas = self.requests.take_definitions(true);
        schemas.append(&mut self.responses.take_definitions(true));
        for (component, property, schema) in self.possible {
            let properties = schemas.get_mut(component).and_then(|it| it.get_mut("properties"));
            let property = properties.and_then(|all| all.get_mut(property));
            if let Some(property) = property.and_then(Value::as_object_mut) {
                property.insert("anyOf".into(), json!([schema, {}]));
            }
        }
        json!({
            "openapi": "3.2.0",
            "info": {
                "title": "loopwright",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Agents over HTTP: one request and its events, or live sessions. \
                    Any request is refused with status 401 if its token is missing or wrong, and \
                    with 403 if the server does not accept its `Host` or the page that sends it.",
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
    /// Adds a request body of this type.
    pub(super) fn request<T: JsonSchema>(mut self) -> Self {
        let schema = self.document.requests.subschema_for::<T>();
        self.value["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        self.errors(&[(415, "The body is not JSON.")])
    }

    /// Adds a request body with this schema, from another specification.
    pub(super) fn foreign_request(mut self, schema: Value) -> Self {
        self.value["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        self.errors(&[(415, "The body is not JSON.")])
    }

    /// Adds a required parameter. `location` is `query` or `header`.
    pub(super) fn parameter(
        self,
        location: &str,
        name: &str,
        schema: Value,
        description: &str,
    ) -> Self {
        let mut operation = self.optional_parameter(location, name, schema, description);
        let last = operation.value["parameters"].as_array_mut().and_then(|all| all.last_mut());
        if let Some(parameter) = last {
            parameter["required"] = true.into();
        }
        operation
    }

    /// Adds an optional parameter. `location` is `query` or `header`.
    pub(super) fn optional_parameter(
        mut self,
        location: &str,
        name: &str,
        schema: Value,
        description: &str,
    ) -> Self {
        let parameter =
            json!({ "name": name, "in": location, "schema": schema, "description": description });
        if let Some(parameters) = self.value["parameters"].as_array_mut() {
            parameters.push(parameter);
        }
        self
    }

    /// Adds the parameters of a page, with positions that match the pattern.
    pub(super) fn page(self, pattern: &str) -> Self {
        let limit = json!({
            "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
        });
        let after = "The `next` of the page before; the first page by default.";
        self.optional_parameter(
            "query",
            "after",
            json!({ "type": "string", "pattern": pattern }),
            after,
        )
        .optional_parameter(
            "query",
            "limit",
            limit,
            "The maximum number of elements of the page.",
        )
    }

    /// Adds a response with JSON of this type.
    pub(super) fn response<T: JsonSchema>(mut self, status: u16, description: &str) -> Self {
        let schema = self.document.responses.subschema_for::<T>();
        self.value["responses"][status.to_string()] = json_response(description, &schema);
        self
    }

    /// Adds a response with a stream of events, or adds the stream to a JSON response. The data of
    /// each event has this type, or one of the other schemas.
    pub(super) fn event_stream<T: JsonSchema>(
        mut self,
        description: &str,
        others: &[Value],
    ) -> Self {
        let schema = self.document.responses.subschema_for::<T>().to_value();
        let any = json!({ "anyOf": ([&[schema], others].concat()) });
        let data = json!({
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": any,
        });
        let item =
            json!({ "type": "object", "properties": { "data": data }, "required": ["data"] });
        let stream = json!({ "itemSchema": item });
        let response = &mut self.value["responses"]["200"];
        if response.is_null() {
            *response = json!({ "description": description });
        }
        response["content"]["text/event-stream"] = stream;
        self
    }

    /// Adds that the data of the stream's last event is this text.
    pub(super) fn ended_by(mut self, last: &str) -> Self {
        let stream = &mut self.value["responses"]["200"]["content"]["text/event-stream"];
        let data = &mut stream["itemSchema"]["properties"]["data"];
        *data = json!({ "anyOf": [{ "const": last }, data.take()] });
        self
    }

    /// Adds a response with text of this media type.
    pub(super) fn text_response(mut self, media_type: &str, description: &str) -> Self {
        let content = json!({ media_type: { "schema": { "type": "string" } } });
        self.value["responses"]["200"] = json!({ "description": description, "content": content });
        self
    }

    /// Adds a response without a body.
    pub(super) fn empty_response(mut self, status: u16, description: &str) -> Self {
        self.value["responses"][status.to_string()] = json!({ "description": description });
        self
    }

    /// Adds error responses with these statuses and descriptions.
    pub(super) fn errors(mut self, cases: &[(u16, &str)]) -> Self {
        let responses = &mut self.document.responses;
        let schema = match self.path.starts_with("/v1/") {
            true => responses.subschema_for::<openai::ErrorBody>(),
            false => responses.subschema_for::<ErrorBody>(),
        };
        for (status, description) in cases {
            self.value["responses"][status.to_string()] = json_response(description, &schema);
        }
        self
    }

    /// Adds the operation to the document.
    pub(super) fn add(self) {
        let path = self.document.paths.entry(self.path).or_insert_with(|| json!({}));
        path[self.method] = self.value;
    }
}

fn json_response(description: &str, schema: &Schema) -> Value {
    let content = json!({ "application/json": { "schema": schema } });
    json!({ "description": description, "content": content })
}

fn operation_id(method: &str, path: &str) -> String {
    let words = path
        .split(['/', '-', '.'])
        .filter(|word| !word.is_empty())
        .map(|word| word.trim_matches(['{', '}']));
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}
