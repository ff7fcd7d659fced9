//! `GET /healthz`: whether the server is there.

use axum::Router;

use crate::config::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
}
