//! [`Definitions`]: the definitions of tools under which they were called.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Records what the user has accepted, by digest: the definition of each tool that has been called,
/// and the servers that a project proposes.
///
/// A tool whose definition has changed since needs approval, whatever the agent's rules are.
#[derive(Debug, Default)]
pub struct Definitions {
    /// `None` if they are kept in memory only.
    path: Option<PathBuf>,
    digests: Mutex<BTreeMap<String, String>>,
}

impl Definitions {
    /// Keeps the digests in memory.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Keeps the digests in a file, which is read now and replaced with each change. It need not
    /// exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not one that this type has written.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let digests = match std::fs::metadata(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(why) => return Err(why),
            Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
                return Err(io::Error::other(format!("{} is too large", path.display())));
            }
            Ok(_) => serde_json::from_slice(&std::fs::read(&path)?)?,
        };
        Ok(Definitions { path: Some(path), digests: Mutex::new(digests) })
    }

    /// Returns the digest that was accepted for this key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Records a digest, replacing another one of this key.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written; it is recorded in memory then.
    pub fn accept(&self, key: &str, digest: &str) -> io::Result<()> {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.insert(key.to_owned(), digest.to_owned()).as_deref() == Some(digest) {
            return Ok(());
        }
        match &self.path {
            Some(path) => write(path, &digests),
            None => Ok(()),
        }
    }
}

/// Replaces the file, so that a crash leaves the old one or the new one.
fn write(path: &Path, digests: &BTreeMap<String, String>) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&temporary, serde_json::to_vec_pretty(digests)?)?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_kept_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/mcp.json");
        let definitions = Definitions::open(&path).unwrap();
        assert_eq!(definitions.get("a"), None);
        definitions.accept("a", "1").unwrap();
        definitions.accept("a", "2").unwrap();
        assert_eq!(Definitions::open(&path).unwrap().get("a").as_deref(), Some("2"));
        std::fs::write(&path, "{").unwrap();
        assert!(Definitions::open(&path).is_err());
    }
}
