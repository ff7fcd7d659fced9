//! The Model Context Protocol (MCP) for loopwright, on the official SDK [`rmcp`].
//!
//! With the feature `client`, an agent uses the tools, resources and prompts of MCP servers through
//! [`McpServer`]. With the feature `server`, the module `server` serves agents or their tools to
//! MCP clients.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README, whose examples run as tests.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(feature = "client")]
mod client;
#[cfg(any(feature = "client", feature = "server"))]
mod lines;
#[cfg(feature = "server")]
#[cfg_attr(docsrs, doc(cfg(feature = "server")))]
pub mod server;

#[cfg(feature = "client")]
pub use client::config::{CommandLine, ConfigError, Endpoint, ServerConfig, Transport};
#[cfg(feature = "client")]
pub use client::decode::{tool_output, tool_spec};
#[cfg(feature = "client")]
pub use client::definitions::Definitions;
#[cfg(feature = "client")]
pub use client::elicitation::elicited_question;
#[cfg(feature = "client")]
pub use client::launch::{Launch, Pipes, Unconfined};
#[cfg(feature = "oauth")]
#[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
pub use client::oauth::credentials::Credentials;
#[cfg(feature = "client")]
pub use client::processes::ProcessLimit;
#[cfg(feature = "client")]
pub use client::sampling::sampling_request;
#[cfg(feature = "client")]
pub use client::search::ToolSearch;
#[cfg(feature = "client")]
pub use client::{McpServer, ServerBuilder, ServerStatus};
