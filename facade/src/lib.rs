//! Write the agent loop; get streaming, validated tools, approvals, steering, memory and limits
//! with it.
//!
//! This crate re-exports [`loopwright_core`] at its root and the other crates of the project as
//! modules, each behind a feature:
//!
//! | module | feature | contents |
//! |---|---|---|
//! | | `schema` (default) | arguments and typed output are checked against JSON Schemas |
//! | `testing` | `testing` | scripted models, cassettes, faults and checks for tests |
//! | `patterns` | `patterns` (default) | sixteen loops: `PiPattern`, plans, votes, roles, … |
//! | `providers` | `providers` (default) | OpenAI, Anthropic, Gemini and compatible servers |
//! | | `rustls-ring` (default) | TLS by rustls with ring; without TLS only `http://` works |
//! | | `rustls-aws-lc`, `rustls-no-provider`, `native-tls` | other TLS back ends |
//! | `memory` | `memory` (default) | JSON Lines session store, summary compaction, export, import |
//! | | `sqlite` (default) | SQLite session store |
//! | | `long-term` (default) | facts that outlive a session |
//! | | `conformance` | test suites for session stores and for patterns |
//! | `tools` | `tools` (default) | the workspace and the tools that read and write its files |
//! | | `commands` (default) | `execute_command` |
//! | | `search` (default) | `search_files`, `glob_files` |
//! | `server` | `server` | agents over HTTP and server-sent events |
//! | | `coding-agent` | the server's coding agent, which needs a TLS feature for `https://` |
//!
//! ```
//! use loopwright::patterns::PiPattern;
//! use loopwright::providers::Offline;
//! use loopwright::{GenericAgent, RunContext};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = GenericAgent::builder(Offline::new(), PiPattern);
//! let agent = builder.system("You answer briefly.").build()?;
//! let (handle, _events) = agent.run(RunContext::new()).await?;
//! println!("{}", handle.prompt("Hello").await?.text);
//! # Ok(()) }
//! ```

/// Runs the README's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

#[cfg(doctest)]
mod guide;

pub use loopwright_core::*;

#[cfg(feature = "memory")]
pub use loopwright_memory as memory;
#[cfg(feature = "patterns")]
pub use loopwright_patterns as patterns;
#[cfg(feature = "providers")]
pub use loopwright_providers as providers;
#[cfg(feature = "server")]
pub use loopwright_server as server;
#[cfg(feature = "tools")]
pub use loopwright_tools as tools;
