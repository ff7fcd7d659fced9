//! `GET /api/sessions/{id}/events`: what happens in a session, from any point on.

use axum::Router;

use crate::config::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
}
