//! `GET /api/openapi.json`: what the routes take and return. The schemas are those of the
//! routes' types.

mod document;
mod events;
mod lookups;
mod operations;

use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;

use self::document::Document;
use crate::server::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/openapi.json", get(async || Json(document())))
}

/// Returns the OpenAPI document.
fn document() -> Value {
    let mut document = Document::new();
    operations::describe(&mut document);
    lookups::describe(&mut document);
    events::describe(&mut document);
    document.finish()
}
