//! A local server that speaks OpenAI's chat API, for the example and its tests.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint, ServiceTargetResolver};
use genai::{Client, ModelIden, ServiceTarget};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A running server that records its requests.
#[derive(Clone, Default)]
pub struct Mock {
    /// The bodies of the requests so far.
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Mock {
    /// Starts a server. Returns it with a client of genai that sends everything to it.
    pub async fn start() -> Result<(Mock, Client), Box<dyn Error>> {
        let mock = Mock::default();
        let app = Router::new().route("/v1/chat/completions", post(reply));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1/", listener.local_addr()?);
        let app = app.with_state(mock.clone());
        tokio::spawn(async { axum::serve(listener, app).await });
        let resolver = ServiceTargetResolver::from_resolver_fn(
            move |target: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
                Ok(ServiceTarget {
                    endpoint: Endpoint::from_owned(url.as_str()),
                    auth: AuthData::from_single("no key"),
                    model: ModelIden::new(AdapterKind::OpenAI, target.model.model_name),
                })
            },
        );
        Ok((mock, Client::builder().with_service_target_resolver(resolver).build()?))
    }

    /// Returns the bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Replies according to the last message: calls `weather`, quotes its result, or fails.
async fn reply(State(mock): State<Mock>, Json(request): Json<Value>) -> Response {
    let last = request["messages"].as_array().and_then(|all| all.last()).cloned();
    let last = last.unwrap_or_default();
    mock.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let text = last["content"].as_str().unwrap_or_default().to_owned();
    let function = |arguments: &str| {
        json!({"tool_calls": [
        {"index": 0, "function": {"arguments": arguments}}]})
    };
    let chunks = match (last["role"].as_str(), &*text) {
        (_, "fail") => {
            let body = json!({"error": {"message": "Slow down."}});
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")], Json(body))
                .into_response();
        }
        (_, "break") => vec![(json!({"content": "It is"}), None)],
        (Some("tool"), _) => vec![
            (json!({"reasoning_content": "I have the result."}), None),
            (json!({"content": "The tool says: "}), None),
            (json!({"content": text}), Some("stop")),
        ],
        _ => vec![
            (json!({"content": "Let me look."}), None),
            (
                json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                "function": {"name": "weather", "arguments": ""}}]}),
                None,
            ),
            (function("{\"city\":"), None),
            (function("\"Rome\"}"), Some("tool_calls")),
        ],
    };
    let mut body = String::new();
    for (delta, reason) in chunks {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        body += &format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}));
    }
    if text == "break" {
        body += "data: {\"error\": {\"message\": \"The model has crashed.\"}}\n\n";
    }
    let usage = json!({"prompt_tokens": 30, "completion_tokens": 8, "total_tokens": 38,
        "prompt_tokens_details": {"cached_tokens": 10}});
    body += &format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage}));
    ([("content-type", "text/event-stream")], body).into_response()
}
