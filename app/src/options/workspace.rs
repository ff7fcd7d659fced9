//! The directory that tools work in, and the permissions of commands there.

use std::path::{Path, PathBuf};

use clap::Args;
use loopwright_tools::{Commands, Workspace, WorkspaceError, protected_file, protected_paths};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Settings of the directory that tools work in.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WorkspaceOptions {
    /// The directory to work in, which tools cannot leave; the current one by default.
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<PathBuf>,
    /// Refuse to change a file that was modified by others since the agent read it.
    ///
    /// The agent must read the file again first. Each session has its own record of reads, so the
    /// option has no effect on `tools call`, which is a single call. It does not apply to commands.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<bool>,
    /// A protected file or directory that tools and commands may change; `.` for all. May be
    /// repeated.
    ///
    /// Your own tools run or obey protected files without asking you, such as `.git/hooks` and
    /// `.envrc`. Commands cannot change them, and file tools ask you whatever is approved.
    #[arg(long, value_name = "PATH", value_parser = protected_path)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unprotected: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) commands: CommandOptions,
}

/// Permissions and limits of commands.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CommandOptions {
    /// Let commands use the network. By default they have no network, not even localhost.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<bool>,
    /// Run commands without confinement: they can do everything that you can.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", conflicts_with_all = ["readable", "writable"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unconfined: Option<bool>,
    /// Another file or directory that commands may read and run programs from. May be repeated.
    #[arg(long, value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) readable: Vec<PathBuf>,
    /// Another file or directory that commands may write. May be repeated.
    #[arg(long, value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) writable: Vec<PathBuf>,
    /// The memory that a command may use, in GiB; three quarters of this machine's by default.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_memory: Option<u32>,
    /// The amount by which the free space of a disk may shrink while a command runs, in GiB; 32 by
    /// default.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_disk: Option<u32>,
}

/// Parses a path whose protection can be lifted: a protected path, or a parent of one.
pub(crate) fn protected_path(path: &str) -> Result<String, String> {
    let wanted = path.trim_start_matches("./").trim_end_matches('/');
    let is_at_or_above = |protected: &str| Path::new(protected).starts_with(wanted);
    let is_one = || protected_file("write_file", &json!({ "path": path })).is_some();
    if path == "." || (!wanted.is_empty() && (protected_paths().any(is_at_or_above) || is_one())) {
        return Ok(path.to_owned());
    }
    let all: Vec<&str> = protected_paths().collect();
    Err(format!("it is not protected; give `.` for all, or one of: {}", all.join(", ")))
}

impl WorkspaceOptions {
    /// Opens the workspace.
    pub(crate) fn workspace(&self) -> Result<Workspace, WorkspaceError> {
        let workspace = Workspace::open(self.root.as_deref().unwrap_or(Path::new(".")))?;
        let workspace = self.unprotected.iter().fold(workspace, Workspace::unprotected);
        Ok(if self.guard.unwrap_or_default() { workspace.guarded() } else { workspace })
    }

    /// Returns the directory as it was given, by default `.`.
    pub(crate) fn root_or_here(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(|| PathBuf::from("."))
    }

    /// Returns the settings of the command tool.
    pub(crate) fn commands(&self) -> Commands {
        self.commands.commands()
    }

    /// Returns these options, with `lower`'s values for the unset ones.
    pub(crate) fn over(self, lower: WorkspaceOptions) -> WorkspaceOptions {
        WorkspaceOptions {
            root: self.root.or(lower.root),
            guard: self.guard.or(lower.guard),
            unprotected: match self.unprotected.is_empty() {
                true => lower.unprotected,
                false => self.unprotected,
            },
            commands: self.commands.over(lower.commands),
        }
    }
}

impl CommandOptions {
    /// Returns the settings of the command tool.
    pub(crate) fn commands(&self) -> Commands {
        let mut commands = Commands::new();
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

    /// Returns these options, with `lower`'s values for the unset ones.
    pub(crate) fn over(self, lower: CommandOptions) -> CommandOptions {
        // Paths imply confined commands.
        let has_paths = !self.readable.is_empty() || !self.writable.is_empty();
        let inherited = lower.unconfined.filter(|_| !has_paths);
        CommandOptions {
            network: self.network.or(lower.network),
            unconfined: self.unconfined.or(inherited),
            readable: if self.readable.is_empty() { lower.readable } else { self.readable },
            writable: if self.writable.is_empty() { lower.writable } else { self.writable },
            max_memory: self.max_memory.or(lower.max_memory),
            max_disk: self.max_disk.or(lower.max_disk),
        }
    }
}
