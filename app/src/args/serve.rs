//! The command line of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::StoreAt;
use super::options::{CommandOptions, MODELS};

/// Where it listens if nothing else is said.
pub(crate) const ADDR: &str = "127.0.0.1:7777";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on. With one that other machines reach, a token is needed.
    #[arg(long, value_name = "IP:PORT", default_value = ADDR)]
    pub(crate) addr: SocketAddr,
    /// A directory that clients may work in, and in all below it; the current one if none is given.
    /// May be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// What clients must send as `Authorization: Bearer TOKEN`, at least 16 characters; else
    /// LOOPWRIGHT_TOKEN, which other users of this machine cannot see.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// A name that clients may call the server by, besides its address and localhost. May be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The most runs at a time of one client's address; 32 if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_runs: Option<u32>,
    /// The most connections of one client's address, each stream of events being one; 1024 if not
    /// given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// How many seconds what goes on may take to end when the server is told to.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) grace: u32,
    /// The model of sessions that name none, such as openai/gpt-4o-mini; `offline` for rules that
    /// need no model.
    ///
    /// Requests of /api/agent-chat bring their own model and key.
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// The address of a server of your own for that model, up to but without `/chat/completions`.
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) base_url: Option<String>,
    #[arg(long, value_name = "FILE", help = MODELS)]
    pub(crate) models: Option<PathBuf>,
    /// Leave out what AGENTS.md in a session's directory says to agents; otherwise it is the end of
    /// the system prompt.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) no_agents_md: Option<bool>,
    #[command(flatten)]
    pub(crate) at: StoreAt,
    #[command(flatten)]
    pub(crate) commands: CommandOptions,
}
