//! The directory and the permissions that settings describe.

use std::path::Path;

use loopwright_tools::{Commands, Workspace, WorkspaceError};

use super::SessionSettings;

#[cfg_attr(docsrs, doc(cfg(feature = "coding-agent")))]
impl SessionSettings {
    /// Opens the directory, by default the current one, with its protections.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub fn workspace(&self) -> Result<Workspace, WorkspaceError> {
        let directory = self.work_dir.as_deref().unwrap_or(".");
        Ok(self.protect(Workspace::open(Path::new(directory))?))
    }

    /// Applies the protections of files to the directory.
    pub(crate) fn protect(&self, workspace: Workspace) -> Workspace {
        let workspace = self.unprotected.iter().fold(workspace, Workspace::unprotected);
        if self.guard.unwrap_or(true) { workspace.guarded() } else { workspace }
    }

    /// Returns the permissions and limits of commands: `base`, extended by these settings.
    pub fn commands(&self, base: &Commands) -> Commands {
        let mut commands = base.clone();
        if self.network.unwrap_or_default() {
            commands = commands.network();
        }
        if self.unconfined.unwrap_or_default() {
            commands = commands.unconfined();
        }
        let bytes = |gib: u32| u64::from(gib) << 30;
        if let Some(gib) = self.max_memory {
            commands = commands.max_memory(bytes(gib));
        }
        if let Some(gib) = self.max_disk {
            commands = commands.max_disk(bytes(gib));
        }
        let commands = self.readable.iter().fold(commands, Commands::readable);
        self.writable.iter().fold(commands, Commands::writable)
    }
}
