//! `GET /api/openapi.json`: what the routes take and give.

use axum::Router;

use crate::config::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
}
