//! Sessions on a fleet of machines, for [loopwright](https://docs.rs/loopwright).
//!
//! A [`Cluster`] is one of any number of processes, the workers, that share a store. A session is
//! not bound to a worker: each worker takes inputs for every session and returns the events of
//! every session. The [`Placement`] decides which worker does the work. If a worker dies, another
//! one continues its sessions where their logs end.
//!
//! ```
//! use std::time::Duration;
//!
//! use loopwright_core::GenericAgent;
//! use loopwright_core::event::AgentEvent;
//! use loopwright_core::log::InMemoryStore;
//! use loopwright_core::testing::{Script, ScriptedModel};
//! use loopwright_durable::{Cluster, Leases};
//! use loopwright_patterns::PiPattern;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedModel::new([Script::text("Rather the south.")]);
//! let agent = GenericAgent::builder(model, PiPattern).build()?;
//! // With several machines this is `loopwright_memory::Postgres`.
//! let store = InMemoryStore::new();
//! let cluster = Cluster::builder(store, agent).placement(Leases::new()).start().await?;
//!
//! let session = cluster.session("holiday"); // neither opens nor reads anything
//! session.prompt("Where to?").await?;
//! let mut events = session.events(0);
//! while let Some(event) = events.next().await {
//!     if let AgentEvent::AgentEnd(outcome) = &event?.event {
//!         assert_eq!(outcome.text, "Rather the south.");
//!         break;
//!     }
//! }
//! cluster.drain(Duration::from_secs(10)).await;
//! # Ok(()) }
//! ```
//!
//! - **Data.** Everything is in the store: logs, mailboxes, owners, schedules. An idle session
//!   takes no memory in any worker.
//! - **Correctness.** The store gives a session to one owner at a time. Each opening has a new
//!   epoch, which every write checks. The placement only decides who works when.
//! - **Inputs** are durable in the mailbox of the session when they are acknowledged, and the
//!   session takes each once.
//! - **Events** have the same numbers from every worker. Deltas come from the worker that has the
//!   session open, if it has an [address](ClusterBuilder::reachable_at).
//! - **Code.** A run continues by entering the pattern again, not by repeating its steps. So
//!   workers with new code continue runs of old code.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod agents;
mod cluster;
mod driver;
mod error;
mod events;
mod handover;
mod host;
mod hosting;
mod http_client;
mod peers;
mod placement;
mod session;
mod worker;

pub use agents::{Agents, FromFn, agents_from_fn};
pub use cluster::{Cluster, ClusterBuilder};
pub use driver::{Drive, Driver};
pub use error::{ClusterError, PlacementError};
pub use events::ClusterEvents;
pub use handover::{HandOver, HandOverMemory};
pub use host::{Host, Hosted};
pub use peers::EVENTS_PATH;
#[cfg(feature = "restate")]
pub use placement::restate::{Restate, RestateBuilder};
pub use placement::{Leases, Placement};
pub use session::ClusterSession;
