//! [`OutboxFile`]: the file of an outbox, written by one process at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first line of the file.
const HEADER: &str = r#"{"loopwright":"outbox","version":1}"#;

/// A file that lines are appended to, and the lock that reserves it for this process.
pub(in crate::inbox) struct OutboxFile {
    path: PathBuf,
    file: Arc<File>,
    lines: usize,
    _lock: File,
}

impl OutboxFile {
    /// Creates the parent directory of a new file, accessible only to the user.
    pub(in crate::inbox) fn prepare(path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            builder.create(folder)?;
        }
        options().append(true).create(true).open(with_suffix(path, ".lock")).map(drop)
    }

    /// Opens a file and returns its lines. Returns `None` while another process has it open. The
    /// file can end in an incomplete line, so it must be [rewritten](Self::rewrite) first.
    pub(in crate::inbox) fn open(path: &Path) -> io::Result<Option<(Self, Vec<String>)>> {
        let lock = options().append(true).create(true).open(with_suffix(path, ".lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(why)) => return Err(why),
        }
        let bytes = match fs::read(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let mut lines = Vec::new();
        // A line without an end is incomplete: the write was interrupted.
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if let Some(line) = line.strip_suffix(b"\n") {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        if lines.first().is_some_and(|first| first != HEADER) {
            let why = "it is not the outbox of a webhook, or that of a newer version";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let lines = lines.split_off(lines.len().min(1));
        let file = Arc::new(options().append(true).create(true).open(path)?);
        let opened = OutboxFile { path: path.to_owned(), file, lines: lines.len(), _lock: lock };
        Ok(Some((opened, lines)))
    }

    pub(in crate::inbox) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of lines.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Adds lines.
    pub(super) async fn append(&mut self, lines: Vec<String>, must_flush: bool) -> io::Result<()> {
        self.lines += lines.len();
        let file = self.file.clone();
        let append = move || {
            (&*file).write_all((lines.join("\n") + "\n").as_bytes())?;
            if must_flush { file.sync_data() } else { Ok(()) }
        };
        tokio::task::spawn_blocking(append).await.unwrap_or_else(|why| Err(io::Error::other(why)))
    }

    /// Replaces all lines.
    pub(in crate::inbox) async fn rewrite(&mut self, lines: Vec<String>) -> io::Result<()> {
        let (path, count) = (self.path.clone(), lines.len());
        let written = tokio::task::spawn_blocking(move || write(&path, &lines)).await;
        let written = written.unwrap_or_else(|why| Err(io::Error::other(why)));
        (self.file, self.lines) = (Arc::new(written?), count);
        Ok(())
    }
}

/// Replaces the content of a file with these lines, and returns it for appending.
fn write(path: &Path, lines: &[String]) -> io::Result<File> {
    let draft = with_suffix(path, ".draft");
    let mut text = format!("{HEADER}\n");
    lines.iter().for_each(|line| text.extend([line, "\n"]));
    let mut file = options().write(true).create(true).truncate(true).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    if let (true, Some(folder)) = (cfg!(unix), path.parent()) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()?;
    }
    options().append(true).open(path)
}

/// Returns options that create files that only the user may access.
fn options() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
