//! An agent over HTTP.
//!
//! `POST /api/agent-chat` answers one request with the events of its run and keeps nothing. Live
//! sessions (`/api/sessions`) are kept in a [`SessionStore`](loopwright_core::MemoryStore); a
//! connection that closes does not end them. [`serve`] is all of it with the checks that a server
//! that runs commands needs; [`router`] is the routes alone, for an app of one's own with its own
//! authentication, and [`sse`] sends any session's events.
//!
//! ```no_run
//! use loopwright_server::{Named, Server, serve};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder(Named::default()).root("/home/me/project").build()?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7777").await?;
//! serve(listener, server, std::future::pending()).await?;
//! # Ok(()) }
//! ```

mod agent_chat;
mod body;
mod config;
mod drain;
mod error;
mod events;
mod frames;
mod guard;
mod health;
mod live;
mod metrics;
mod models;
mod observe;
mod openapi;
mod page;
mod public;
mod roots;
mod serve;
mod sessions;
mod shares;
mod sse;

use axum::Router;

pub use config::{ConfigError, Server, ServerBuilder};
pub use models::{LlmConfig, Models, Named};
pub use public::{PublicEvents, ToPublic};
pub use serve::serve;
pub use sse::sse;

/// All routes, without authentication and without a look at `Host` and `Origin`: those are the
/// app's that mounts them. Bodies are bounded, and must be JSON.
pub fn router(server: Server) -> Router {
    Router::new()
        .merge(agent_chat::routes())
        .merge(sessions::routes())
        .merge(events::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(openapi::routes())
        .merge(page::routes())
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(axum::middleware::from_fn_with_state(server.clone(), body::bounded))
        .with_state(server)
}
