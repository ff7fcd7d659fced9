//! [`Definitions`]: the accepted definitions of tools.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The maximum size of the file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A record of what the user has accepted, by digest: the definition of each called tool, and the
/// servers that a project proposes.
///
/// A tool whose definition has changed since needs approval, whatever the agent's rules are.
#[derive(Debug, Default)]
pub struct Definitions {
    /// The file, or `None` to keep the digests in memory only.
    path: Option<PathBuf>,
    digests: Mutex<BTreeMap<String, String>>,
}

impl Definitions {
    /// Returns an empty record that is kept in memory.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Opens a record in a file. The file is read now, and read again and replaced with each
    /// change, so that other records in it stay. It need not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or was not written by this type.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let digests = Mutex::new(read(&path)?);
        Ok(Definitions { path: Some(path), digests })
    }

    /// Returns the accepted digest of this key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Records a digest, which replaces the key's previous one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written. The digest is then recorded in memory only.
    pub fn accept(&self, key: &str, digest: &str) -> io::Result<()> {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.insert(key.to_owned(), digest.to_owned()).as_deref() == Some(digest) {
            return Ok(());
        }
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let lock = File::create(path.with_extension("lock"))?;
        lock.lock()?; // until it is dropped; other sessions and processes write the file, too
        let mut kept = read(path)?;
        kept.insert(key.to_owned(), digest.to_owned());
        write(path, &kept)
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<String, String>> {
    match std::fs::metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(why) => Err(why),
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            Err(io::Error::other(format!("{} is too large", path.display())))
        }
        Ok(_) => Ok(serde_json::from_slice(&std::fs::read(path)?)?),
    }
}

/// Replaces the file atomically, under the lock: a crash leaves the old one or the new one.
fn write(path: &Path, digests: &BTreeMap<String, String>) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
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
        let other = Definitions::open(&path).unwrap();
        assert_eq!(other.get("a").as_deref(), Some("2"));
        other.accept("b", "3").unwrap();
        definitions.accept("c", "4").unwrap();
        assert_eq!(Definitions::open(&path).unwrap().get("b").as_deref(), Some("3"));
        std::fs::write(&path, "{").unwrap();
        assert!(Definitions::open(&path).is_err());
    }
}
