//! Who is alive: each opened store holds the lock of a small file of its own for as long as it
//! lives.
//!
//! The lock goes when its process goes, however that comes. So an owner whose lock can be had is
//! dead, and what it owned is free.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use loopwright_core::agent::{Environment, SystemEnvironment};

use crate::private;

/// Ends the names of files that are still being made; they are their owner's.
const NEW: &str = ".new";

/// This store's lock, and the folder of all.
pub(super) struct Owners {
    folder: PathBuf,
    token: String,
    /// Holds the lock.
    _lock: File,
}

impl Owners {
    /// Takes a lock of its own in `folder`, and removes what the dead have left there.
    pub(super) fn new(folder: PathBuf) -> io::Result<Self> {
        private::make_folder(&folder)?;
        loop {
            let token = format!("{}-{:016x}", std::process::id(), SystemEnvironment.random());
            let path = folder.join(&token);
            let file = match private::file().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            file.lock()?;
            if path.exists() {
                let owners = Owners { folder, token, _lock: file };
                owners.sweep();
                return Ok(owners);
            } // else it was swept away before it was locked
        }
    }

    /// The name of this store among the owners.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Where something is made that has another name once it is done.
    pub(super) fn draft(&self) -> PathBuf {
        self.folder.join(format!("{}{NEW}", self.token))
    }

    /// Whether the store of this token lives, in whichever process.
    pub(super) fn is_alive(&self, token: &str) -> bool {
        if token == self.token {
            return true;
        }
        // Shared, so that two who ask at once do not take each other for the owner.
        match File::open(self.folder.join(token)) {
            Ok(file) => !matches!(file.try_lock_shared(), Ok(())),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(token) = name.to_str().and_then(|name| name.split('.').next()) else {
                continue;
            };
            if token == self.token {
                continue;
            }
            let lock = File::open(self.folder.join(token));
            let dead = match &lock {
                Ok(lock) => lock.try_lock_shared().is_ok(),
                Err(error) => error.kind() == ErrorKind::NotFound,
            };
            if dead {
                let _ = fs::remove_file(entry.path()); // the next one sweeps again
            }
        }
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.join(&self.token)); // whoever sees it finds nobody holding it
    }
}
