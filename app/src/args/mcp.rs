//! The command line of `mcp`.

use clap::Args;

use super::sessions::StoreArgs;
use crate::options::Options;

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Serve the agent's tools themselves, such as read_file, instead of the agent.
    ///
    /// No model is needed. Calls that need approval ask the client's user, or fail.
    #[arg(long)]
    pub(crate) tools: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}
