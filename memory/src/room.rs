//! Check that a store's folder is writable.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use loopwright_core::{Environment, SystemEnvironment};
use tokio::task::spawn_blocking;

use crate::private;

/// Required room: more than one append needs, with the pages around it.
const ROOM_BYTES: usize = 256 * 1024;

/// The file of a check. It is removed on drop, even if the check failed.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // it may not have been created
    }
}

/// Checks that the folder has room for another append, by writing a file there and removing it, on
/// a blocking thread.
pub(crate) async fn check(folder: &Path) -> Result<(), MemoryError> {
    let name = format!(".room-{}-{:016x}", std::process::id(), SystemEnvironment.random());
    let file = Removed(folder.join(name));
    let written = spawn_blocking(move || write(&file.0)).await.unwrap_or_else(|e| Err(e.into()));
    written.map_err(|error| {
        let why = format!("{} cannot be written to: {error}", folder.display());
        MemoryError::Failed(Failure::new(why).with_source(error))
    })
}

fn write(path: &Path) -> io::Result<()> {
    let mut file = private::file().write(true).create_new(true).open(path)?;
    file.write_all(&[0; ROOM_BYTES])?;
    file.sync_data() // some file systems find out only now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_that_can_be_written_to_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path()).await.unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = folder.path().join("missing");
        let why = check(&missing).await.unwrap_err().to_string();
        assert!(why.contains("missing cannot be written to"), "{why}");
    }
}
