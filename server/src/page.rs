//! `/`: a page to use it.

use axum::Router;

use crate::config::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
}
