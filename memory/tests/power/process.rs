//! Starting processes whose disk is recorded or fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::child::{Kind, ORDERS, Orders, Work};
use crate::record::Record;

/// Compiles `disk.c`, once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/power/disk.c");
        let compiled = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
            .args([&library, Path::new(source)])
            .status();
        assert!(compiled.expect("cc, a C compiler").success(), "disk.c is compiled");
        library
    })
}

/// A call that fails: its number, and the error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault(pub(crate) u64, pub(crate) i32);

/// A directory for a store, in RAM if possible, with the record of its changes beside it.
pub(crate) struct Workspace {
    folder: TempDir,
    pub(crate) kind: Kind,
}

impl Workspace {
    pub(crate) fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let workspace = Workspace { folder: folder.expect("a temporary directory"), kind };
        std::fs::create_dir(workspace.root()).expect("a new directory");
        workspace
    }

    /// Returns the directory below which changes are recorded.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Returns the command that does this work in another process.
    pub(crate) fn command(&self, work: Work) -> Command {
        let orders = Orders { kind: self.kind, root: self.root(), work };
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command
            .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ORDERS, serde_json::to_string(&orders).expect("orders are JSON"))
            .stdin(Stdio::null());
        command
    }

    /// Does this work in a process, and records its changes. Returns its output.
    pub(crate) fn run(&self, work: Work, fault: Option<Fault>) -> String {
        let mut command = self.command(work);
        command
            .env("LD_PRELOAD", library())
            .env("DISK_ROOT", self.root())
            .env("DISK_RECORD", self.folder.path().join("record"));
        if let Some(Fault(number, errno)) = fault {
            command.env("DISK_FAIL", format!("{number} {errno}"));
        }
        let Output { status, stdout, stderr } = command.output().expect("a process is started");
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{:?} {work:?} {fault:?}: {status}\n{stdout}{stderr}", self.kind);
        stdout
    }

    /// Keeps the directory, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// Returns the changes of all processes so far.
    pub(crate) fn record(&self) -> Record {
        Record::read(&self.folder.path().join("record"))
    }
}
