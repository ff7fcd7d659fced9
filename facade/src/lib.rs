//! Write the agent loop; get streaming, validated tools, approvals, steering, memory and limits
//! with it.
//!
//! This crate re-exports [`loopwright_core`] at its root and the other crates of the project as
//! modules, each behind a feature:
//!
//! | module | feature | contents |
//! |---|---|---|
//! | | `macros` (default) | `#[tool]`, `#[tools]` and `#[loopwright::main]` |
//! | | `schema` (default) | arguments and typed output are checked against JSON Schemas |
//! | | `cron` | cron expressions of schedules, in time zones |
//! | `testing` | `testing` | scripted models, cassettes, faults and checks for tests |
//! | `patterns` | `patterns` (default) | eighteen loops: `PiPattern`, plans, votes, roles, … |
//! | `providers` | `providers` (default) | OpenAI, Anthropic, Gemini and compatible servers |
//! | | `rustls-ring` (default) | TLS by rustls with ring; without TLS only `http://` works |
//! | | `rustls-aws-lc`, `rustls-no-provider`, `native-tls` | other TLS back ends |
//! | `memory` | `memory` | JSON Lines session store, summary compaction, export, import |
//! | | `sqlite` | SQLite session store |
//! | | `postgres` | PostgreSQL session store, for any number of machines |
//! | | `long-term` | facts that outlive a session |
//! | | `conformance` | test suites for session stores and for patterns |
//! | `tools` | `tools` | the workspace and the tools that read and write its files |
//! | | `commands` | `execute_command` |
//! | | `search` | `search_files`, `glob_files` |
//! | `mcp` | `mcp` | MCP servers as sources of tools |
//! | `otel` | `otel` | OpenTelemetry: spans and metrics of sessions over OTLP |
//! | `code` | `code` | code mode: the model writes scripts that call the tools |
//! | `durable` | `durable` | sessions on many machines: cluster, leases, schedules |
//! | | `restate` | sessions that a Restate server places |
//! | `host` | `host` | agents by name: settings, and rules of an operator |
//! | | `coding-agent` | a coding agent, which needs a TLS feature for `https://` |
//! | `server` | `server` | agents over HTTP and server-sent events |
//! | | `a2a-client` | a tool that asks a remote agent, with A2A |
//! | | `jwt` | users of an OpenID Connect provider |
//! | | `webhooks` | reports of new and resolved actions |
//! | | `cluster` | several servers on one store |
//!
//! ```
//! use loopwright::patterns::PiPattern;
//! use loopwright::{GenericAgent, tool};
//!
//! /// Returns the weather in a city.
//! #[tool(read_only)]
//! fn weather(city: String) -> String {
//!     format!("{city}: 21 °C, dry")
//! }
//!
//! #[loopwright::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // "offline" is a rule-based model without a key; others are "anthropic/…", "openai/…", …
//!     let model = loopwright::model("offline")?;
//!     let agent = GenericAgent::builder(model, PiPattern).tool(weather()).build()?;
//!     println!("{}", agent.prompt("Call weather with city=Oslo").await?.text);
//!     Ok(())
//! }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README of the repository, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The README of the package, likewise.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct PackageReadme;

#[cfg(doctest)]
mod guide;

#[cfg(feature = "macros")]
mod generated;
#[cfg(feature = "patterns")]
mod one_liners;

// The modules of the core.
#[cfg(feature = "testing")]
pub use loopwright_core::testing;
pub use loopwright_core::{
    agent, compaction, error, event, hooks, json, limits, log, message, model, net, pattern,
    retrieval, session, tool,
};
// The names at the root of the core.
pub use loopwright_core::{
    AgentBuilder, AgentContext, AgentEvent, AgentHandle, Ask, BehaviorPattern, ChatModel,
    Environment, EventStream, Extensions, GenericAgent, Memory, Message, Principal, Reply,
    RunContext, SessionStore, StepContext, StepEnd, StepError, SystemEnvironment, Tool,
    ToolContext, ToolError, ToolOutput, Tools, TraceContext, tool_fn, tool_with,
};
// Foreign items that appear in public signatures.
pub use loopwright_core::{async_trait, schemars, serde_json};

#[cfg(feature = "macros")]
/// Support for the code that the attributes generate; not a public API.
#[doc(hidden)]
pub mod __private {
    pub use crate::generated::*;
}
#[cfg(feature = "macros")]
pub use loopwright_macros::{main, tool, tools};
#[cfg(all(feature = "patterns", feature = "providers"))]
pub use one_liners::model;
#[cfg(feature = "patterns")]
pub use one_liners::{ask, extract};

#[cfg(feature = "code")]
pub use loopwright_code as code;
#[cfg(feature = "durable")]
pub use loopwright_durable as durable;
#[cfg(feature = "host")]
pub use loopwright_host as host;
#[cfg(feature = "mcp")]
pub use loopwright_mcp as mcp;
#[cfg(feature = "memory")]
pub use loopwright_memory as memory;
#[cfg(feature = "otel")]
pub use loopwright_otel as otel;
#[cfg(feature = "patterns")]
pub use loopwright_patterns as patterns;
#[cfg(feature = "providers")]
pub use loopwright_providers as providers;
#[cfg(feature = "server")]
pub use loopwright_server as server;
#[cfg(feature = "tools")]
pub use loopwright_tools as tools;
