//! `POST /api/agent-chat`: one request, the events of its run, nothing kept.

use axum::Router;

use crate::config::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
}
