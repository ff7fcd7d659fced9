//! [`Credentials`]: the tokens of servers that require authorization.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

/// A store of the OAuth tokens of servers.
#[derive(Default)]
pub struct Credentials {
    /// The file, or `None` to keep the tokens in memory only.
    path: Option<PathBuf>,
    servers: Mutex<BTreeMap<String, Stored>>,
}

/// The tokens and permissions of a server.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    tokens: Option<StoredCredentials>,
    /// The origins, besides the server's own, that the user lets it name for its authorization.
    #[serde(default)]
    origins: BTreeSet<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Returns an empty store that is kept in memory.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Opens a store in a file that only the user can read. The file is read now and replaced with
    /// each change. It need not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or was not written by this type.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let servers = match std::fs::read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            read => serde_json::from_slice(&read?)?,
        };
        Ok(Credentials { path: Some(path), servers: Mutex::new(servers) })
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the store has tokens for a server.
    pub(super) fn has(&self, key: &str) -> bool {
        self.servers().get(key).is_some_and(|stored| stored.tokens.is_some())
    }

    /// Returns the other origins that the user lets a server name for its authorization.
    pub(super) fn origins(&self, key: &str) -> BTreeSet<String> {
        self.servers().get(key).map(|stored| stored.origins.clone()).unwrap_or_default()
    }

    /// Lets a server name these origins, too.
    pub(super) fn allow(&self, key: &str, origins: BTreeSet<String>) -> io::Result<()> {
        self.change(key, |stored| stored.origins.extend(origins))
    }

    fn set(&self, key: &str, tokens: Option<StoredCredentials>) -> io::Result<()> {
        self.change(key, |stored| stored.tokens = tokens)
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Stored)) -> io::Result<()> {
        let mut servers = self.servers();
        change(servers.entry(key.to_owned()).or_default());
        match &self.path {
            Some(path) => write(path, &serde_json::to_vec(&*servers)?),
            None => Ok(()),
        }
    }
}

/// Replaces the file. Only the user can read it.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&temporary)?.write_all(bytes)?;
    std::fs::rename(&temporary, path)
}

/// The tokens of one server.
#[derive(Clone)]
pub(in crate::client) struct OfServer {
    pub(super) credentials: Arc<Credentials>,
    pub(super) key: String,
}

#[async_trait]
impl CredentialStore for OfServer {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.credentials.servers().get(&self.key).and_then(|stored| stored.tokens.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let saved = self.credentials.set(&self.key, Some(credentials));
        saved.map_err(|why| AuthError::CredentialStoreError(why.to_string()))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let cleared = self.credentials.set(&self.key, None);
        cleared.map_err(|why| AuthError::CredentialStoreError(why.to_string()))
    }
}
