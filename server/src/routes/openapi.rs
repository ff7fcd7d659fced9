//! `GET /api/openapi.json`: the OpenAPI document of the routes, with schemas derived from their
//! types.

mod a2a;
mod document;
mod events;
mod front_ends;
mod lookups;
mod openai;
mod operations;
mod schedules;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use loopwright_host::CustomSetting;
use serde_json::Value;

use self::document::Document;
use crate::server::Server;

/// The request schemas with values of the app's own settings.
const WITH_CUSTOM: [&str; 3] = ["SessionSettings", "SettingsChange", "ChatRequest"];

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/openapi.json", get(openapi))
}

/// Returns the document. It is the same for all requests, and takes longer to build than to send.
async fn openapi(State(server): State<Server>) -> impl IntoResponse {
    let shared = server.shared();
    let build = || document(shared.agents.custom_settings()).to_string().into();
    let bytes: Bytes = shared.openapi.get_or_init(build).clone();
    ([(header::CONTENT_TYPE, "application/json")], bytes)
}

/// Returns the OpenAPI document of a server with these settings of the app.
fn document(settings: &[CustomSetting]) -> Value {
    let mut document = Document::new();
    operations::describe(&mut document);
    lookups::describe(&mut document);
    schedules::describe(&mut document);
    openai::describe(&mut document);
    a2a::describe(&mut document);
    events::describe(&mut document);
    front_ends::describe(&mut document);
    let mut document = document.finish();
    for component in WITH_CUSTOM {
        let properties = &mut document["components"]["schemas"][component]["properties"];
        let Some(properties) = properties.as_object_mut() else { continue };
        match CustomSetting::schema_of_all(settings) {
            Some(schema) => properties.insert("custom".into(), schema),
            None => properties.remove("custom"),
        };
    }
    document
}

#[cfg(test)]
mod tests {
    use loopwright_core::GenericAgent;
    use loopwright_core::log::InMemoryStore;
    use loopwright_core::testing::ScriptedModel;
    use loopwright_patterns::PiPattern;

    use super::*;

    /// C415: The document is built once.
    #[tokio::test]
    async fn the_document_is_built_once() {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let server = Server::builder(InMemoryStore::new()).agent("agent", agent).build().unwrap();
        let mut built = Vec::new();
        for _ in 0..2 {
            let _ = openapi(State(server.clone())).await;
            built.push(server.shared().openapi.get().unwrap().as_ptr());
        }
        assert_eq!(built[0], built[1]);
    }
}
