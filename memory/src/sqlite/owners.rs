//! Detection of live owners: each open store holds the lock of a separate file.
//!
//! The kernel releases the lock when the process ends, for any reason. So an owner is dead if its
//! lock can be acquired, and its sessions are free.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use loopwright_core::{Environment, SystemEnvironment};

use crate::private;

/// The suffix of files under construction. Their names contain the owner.
const DRAFT_SUFFIX: &str = ".new";

/// This store's lock, and the folder with the locks of all open stores.
pub(super) struct Owners {
    folder: PathBuf,
    token: String,
    /// The locked file. Dropping it releases the lock.
    _lock: File,
}

impl Owners {
    /// Creates and locks a file in `folder`, and removes the files of dead owners.
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
                owners.remove_dead();
                return Ok(owners);
            } // else another store removed the file before it was locked
        }
    }

    /// Returns the name of this store among the owners.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the path at which this store builds a file before renaming it.
    pub(super) fn draft(&self) -> PathBuf {
        self.folder.join(format!("{}{DRAFT_SUFFIX}", self.token))
    }

    /// Returns `true` if the store with this token is open, in any process.
    pub(super) fn is_alive(&self, token: &str) -> bool {
        if token == self.token {
            return true;
        }
        // A shared lock, so that two processes that check at once do not take each other for the
        // owner.
        match File::open(self.folder.join(token)) {
            Ok(file) => !matches!(file.try_lock_shared(), Ok(())),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Returns `true` if no other store, of this process or another, has the file open.
    pub(super) fn is_only_one(&self) -> bool {
        self.remove_dead();
        let mut others = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        others.all(|other| other.file_name().to_str() == Some(&*self.token))
    }

    fn remove_dead(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(token) = name.to_str().and_then(|name| name.split('.').next()) else {
                continue;
            };
            if token == self.token {
                continue;
            }
            let lock = File::open(self.folder.join(token));
            let is_dead = match &lock {
                Ok(lock) => lock.try_lock_shared().is_ok(),
                Err(error) => error.kind() == ErrorKind::NotFound,
            };
            if is_dead {
                let _ = fs::remove_file(entry.path()); // else the next store removes it
            }
        }
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        // A file that remains counts as dead, since no process holds its lock.
        let _ = fs::remove_file(self.folder.join(&self.token));
    }
}
