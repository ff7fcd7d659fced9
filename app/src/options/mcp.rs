//! [`McpArg`], the value of `--mcp`.

use loopwright_mcp::ServerConfig;
use serde_json::json;

/// An MCP server on the command line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum McpArg {
    /// A server that the project's settings propose and the user accepts.
    Accept(String),
    /// A server that the command line defines.
    Add(ServerConfig),
    /// A server that the user's editor passes. It starts once the user has accepted it.
    Editor(ServerConfig),
}

impl McpArg {
    /// Parses `NAME`, `NAME=COMMAND` or `NAME=URL`. Spaces separate the words of a command.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let Some((name, target)) = text.split_once('=') else {
            return Ok(McpArg::Accept(text.to_owned()));
        };
        let settings = if target.starts_with("http://") || target.starts_with("https://") {
            json!({ "url": target })
        } else {
            let mut words = target.split_whitespace();
            let program = words.next().ok_or("there is no command after `=`")?;
            json!({ "command": program, "args": words.collect::<Vec<_>>() })
        };
        ServerConfig::read(name, &settings).map(McpArg::Add).map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_name_a_command_or_an_address() {
        assert_eq!(McpArg::read("a"), Ok(McpArg::Accept("a".into())));
        for (text, target) in [("a=x  y z", "x y z"), ("b=https://c/d?e=f", "https://c/d?e=f")] {
            let Ok(McpArg::Add(server)) = McpArg::read(text) else { panic!("{text}") };
            assert_eq!(server.describe(), target);
        }
        assert!(McpArg::read("a=").unwrap_err().contains("no command"));
        assert!(McpArg::read("A=x").unwrap_err().contains("lower-case"));
    }
}
