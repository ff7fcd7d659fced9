//! Agents over HTTP.
//!
//! `POST /api/agent-chat` answers one request with the events of its run and stores nothing. Live
//! sessions (`/api/sessions`) are kept in a [`SessionStore`](loopwright_core::SessionStore) and
//! continue when a connection closes. [`serve`] serves all routes, with the checks that a server
//! with command execution needs. [`router`] returns only the routes, for an axum app with its own
//! authentication. [`sse`] streams the events of any session.
//!
//! A [`Server`] runs agents by name. An [`AgentFactory`](loopwright_host::AgentFactory) builds the
//! agent of each session: a function, or one [`GenericAgent`](loopwright_core::GenericAgent) for
//! all sessions.
//!
//! ```
//! use loopwright_core::GenericAgent;
//! use loopwright_core::log::InMemoryStore;
//! use loopwright_core::testing::{Script, ScriptedModel};
//! use loopwright_patterns::PiPattern;
//! use loopwright_server::{Server, serve};
//! use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedModel::new([Script::text("Nine.")]);
//! let agent = GenericAgent::builder(model, PiPattern).build()?;
//! let server = Server::builder(InMemoryStore::new()).agent("shepherd", agent).build()?;
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let shutdown = async { /* until Ctrl-C, for example */ };
//! serve(listener, server, shutdown).await?;
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! - `a2a-client` (on by default): `RemoteAgent`, a tool that sends messages to a remote agent.
//! - `jwt` (on by default): `JwtUsers`, callers known to an OpenID Connect provider.
//! - `webhooks` (on by default): `Webhook`, reports of new and resolved actions.
//! - `long-term` (on by default): `ServerBuilder::long_term` lets clients see and delete the facts
//!   about them that outlive sessions, under `/api/memory`.
//! - `cluster`: workers of a cluster, which are servers on several machines with one store.
//! - `otel`: `ServerBuilder::telemetry`, spans and metrics over OTLP.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod cluster;
mod error;
#[cfg(feature = "http-client")]
mod http_client;
mod inbox;
mod inputs;
mod json;
mod limits;
mod live;
#[cfg(feature = "a2a-client")]
mod remote_agent;
mod routes;
mod serve;
mod server;
mod streams;
mod telemetry;

pub use axum;

#[cfg(feature = "jwt")]
pub use access::JwtUsers;
pub use access::{Access, AccessPolicy, Caller, OwnerPolicy};
pub use inbox::ActionChange;
#[cfg(feature = "webhooks")]
pub use inbox::Webhook;
#[cfg(feature = "a2a-client")]
#[cfg_attr(docsrs, doc(cfg(feature = "a2a-client")))]
pub use remote_agent::RemoteAgent;
pub use routes::router;
pub use serve::serve;
pub use server::Server;
pub use server::builder::ServerBuilder;
pub use streams::public::{PublicEvents, ToPublic};
pub use streams::sse::sse;
