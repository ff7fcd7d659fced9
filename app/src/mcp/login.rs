//! [`Logins`]: the tokens of MCP servers that their user has authorized.

use std::path::Path;
#[cfg(feature = "oauth")]
use std::sync::Arc;

#[cfg(feature = "oauth")]
use loopwright_mcp::Credentials;
use loopwright_mcp::ServerBuilder;

use crate::error::StartError;

/// The file with the tokens, in the data directory.
#[cfg(feature = "oauth")]
const FILE: &str = "mcp-credentials.json";

/// The store of the tokens, if users can authorize MCP servers. Nobody can in builds without the
/// feature `oauth`.
#[derive(Clone, Default)]
pub(super) struct Logins {
    #[cfg(feature = "oauth")]
    credentials: Option<Arc<Credentials>>,
}

#[cfg(not(feature = "oauth"))]
impl Logins {
    pub(super) fn open(_: Option<&Path>) -> Result<Self, StartError> {
        Ok(Logins::default())
    }

    pub(super) fn apply(&self, builder: ServerBuilder) -> ServerBuilder {
        builder
    }
}

#[cfg(feature = "oauth")]
impl Logins {
    /// Opens the file with the tokens in the data directory. Without one, they are kept in memory.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub(super) fn open(directory: Option<&Path>) -> Result<Self, StartError> {
        let Some(directory) = directory else {
            return Ok(Logins { credentials: Some(Arc::new(Credentials::in_memory())) });
        };
        let path = directory.join(FILE);
        let credentials = Credentials::open(&path).map_err(|why| {
            let path = path.display();
            StartError(format!("{path} cannot be read: {why}. Without the file, you log in again."))
        })?;
        Ok(Logins { credentials: Some(Arc::new(credentials)) })
    }

    pub(super) fn apply(&self, builder: ServerBuilder) -> ServerBuilder {
        match &self.credentials {
            Some(credentials) => builder.credentials(credentials.clone()),
            None => builder,
        }
    }
}
