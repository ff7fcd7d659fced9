//! The Model Context Protocol (MCP) for loopwright, on the official SDK [`rmcp`].
//!
//! With the feature `client`, an agent uses the tools of MCP servers. With the feature `server`,
//! an agent's tools are served to MCP clients.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "server")]
#[cfg_attr(docsrs, doc(cfg(feature = "server")))]
pub mod server;
