//! `loopwright mcp`: the agents, or the tools of one of them, as an MCP server on standard input
//! and output.

mod agents;
mod previews;
mod tools;

use std::io::IsTerminal;
use std::sync::Arc;

use loopwright_mcp::server::{AgentServer, SessionHost};

use self::agents::Agents;
use self::tools::AgentTools;
use crate::args::{LogFormat, McpArgs};
use crate::config::Config;
use crate::error::StartError;
use crate::{log, output};

/// The instructions for the models of clients.
const INSTRUCTIONS: &str = "Each tool gives a task to an agent, which works on it with tools of \
                            its own and can take minutes. The result names the session; give it \
                            to continue the conversation.";

/// Serves one client until it closes standard input, and returns the exit code.
pub(crate) async fn mcp(args: McpArgs, config: Arc<Config>) -> Result<u8, StartError> {
    let program = config.program.clone();
    log::start(&program.names, LogFormat::Text)?;
    let version = program.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
    let name = program.names.app();
    let server = if args.tools {
        AgentServer::new(name, version, Arc::new(AgentTools::of(args, &config).await?))
    } else {
        let agents: Arc<dyn SessionHost> = Arc::new(Agents::of(args, config)?);
        AgentServer::new(name, version, agents).instructions(INSTRUCTIONS)
    };
    if std::io::stdin().is_terminal() {
        output::info("Waiting for messages of an MCP client on standard input; Ctrl-D ends.");
    }
    let served = server.serve(tokio::io::stdin(), tokio::io::stdout()).await;
    served.map_err(|why| StartError(format!("The client could not be served: {why}.")))?;
    Ok(0)
}
