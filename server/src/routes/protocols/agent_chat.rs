//! `POST /api/agent-chat`: one request and the events of its run. Nothing is stored. When the
//! connection closes, the run is aborted, with its model request and its processes.

mod history;
mod request;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;

pub(crate) use self::request::ChatRequest;
use crate::access::Caller;
use crate::error::ApiError;
use crate::json::JsonBody;
use crate::limits::quota::Client;
use crate::server::Server;
use crate::streams::frames::Frames;
use crate::streams::request_run::RequestRun;

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/agent-chat", post(chat))
}

async fn chat(
    State(server): State<Server>,
    client: Client,
    caller: Caller,
    JsonBody(request): JsonBody<ChatRequest>,
) -> Result<Response, ApiError> {
    server.shared().drain.check()?;
    let run = RequestRun::start(&server, client, &caller, request.into_run()?).await?;
    Ok(run.into_response(Frames::default()))
}
