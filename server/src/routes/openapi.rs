//! `GET /api/openapi.json`: what the routes take and return. The schemas are those of the
//! routes' types.

mod a2a;
mod document;
mod events;
mod front_ends;
mod lookups;
mod openai;
mod operations;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;

use self::document::Document;
use crate::server::Server;
use crate::settings::{CustomSetting, schema_of};

/// The schemas of requests with the values of the app's own settings.
const WITH_CUSTOM: [&str; 3] = ["SessionSettings", "SettingsChange", "ChatRequest"];

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/openapi.json", get(openapi))
}

async fn openapi(State(server): State<Server>) -> Json<Value> {
    Json(document(server.shared().agents.custom_settings()))
}

/// Returns the OpenAPI document of a server with these settings of the app.
fn document(settings: &[CustomSetting]) -> Value {
    let mut document = Document::new();
    operations::describe(&mut document);
    lookups::describe(&mut document);
    openai::describe(&mut document);
    a2a::describe(&mut document);
    events::describe(&mut document);
    front_ends::describe(&mut document);
    let mut document = document.finish();
    for component in WITH_CUSTOM {
        let properties = &mut document["components"]["schemas"][component]["properties"];
        let Some(properties) = properties.as_object_mut() else { continue };
        match schema_of(settings) {
            Some(schema) => properties.insert("custom".into(), schema),
            None => properties.remove("custom"),
        };
    }
    document
}
