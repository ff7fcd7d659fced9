//! Numbered files that are retained for a while, such as the output of commands.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use cap_std::fs::{Dir, OpenOptions};

use super::directory::unnamed_file;
use super::root::{Result, Workspace};

/// A file `SERIES-NUMBER.txt`.
struct NumberedFile {
    file: String,
    series: String,
    number: u64,
    modified: SystemTime,
    bytes: u64,
}

/// The limits of retained numbered files in a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retention {
    pub(crate) max_files_per_series: usize,
    pub(crate) max_files: usize,
    pub(crate) max_bytes: u64,
}

impl Workspace {
    /// Creates a file without a name on the disk of the directory `path`. Closing the file removes
    /// it.
    #[cfg_attr(not(unix), allow(dead_code, reason = "commands run on Unix only"))]
    pub(crate) fn spool(&self, path: &str) -> Result<File> {
        let dir = self.git_ignored_dir(path)?;
        unnamed_file(&dir, &self.root.real.join(path))
            .map_err(|e| self.error(path, "written to", &e))
    }

    /// Fills a new file `SERIES-NUMBER.txt` in a directory that git ignores, and returns its path.
    ///
    /// Numbers only grow and existing files are never written to, so a name stays valid. The oldest
    /// files beyond `retention` are removed.
    pub(crate) fn add_numbered(
        &self,
        path: &str,
        series: &str,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
        retention: Retention,
    ) -> Result<String> {
        let fail = |e: io::Error| self.error(path, "written to", &e);
        let dir = self.git_ignored_dir(path)?;
        let mut existing = numbered_files(&dir).map_err(fail)?;
        let last =
            existing.iter().filter(|file| file.series == series).map(|file| file.number).max();
        let mut number = last.unwrap_or_default().saturating_add(1);
        let (file, mut open) = loop {
            let file = format!("{series}-{number}.txt");
            match dir.open_with(&file, OpenOptions::new().write(true).create_new(true)) {
                Ok(open) => break (file, open.into_std()),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u64::MAX => {
                    number += 1;
                }
                Err(e) => return Err(fail(e)),
            }
        };
        if let Err(e) = fill(&mut open) {
            let _ = dir.remove_file(&file); // leaves no partial file
            return Err(fail(e));
        }
        // The new file counts, but is never removed.
        existing.sort_by_key(|file| (file.modified, file.number));
        let mut in_series = 1;
        let mut in_all = 1;
        let mut bytes = open.metadata().map_err(fail)?.len();
        for old in existing.iter().rev().filter(|old| old.file != file) {
            in_series += usize::from(old.series == series);
            in_all += 1;
            bytes = bytes.saturating_add(old.bytes);
            if in_all > retention.max_files
                || bytes > retention.max_bytes
                || (old.series == series && in_series > retention.max_files_per_series)
            {
                let _ = dir.remove_file(&old.file); // another process may have removed it
                in_all -= 1;
                bytes -= old.bytes.min(bytes);
            }
        }
        Ok(format!("{path}/{file}"))
    }

    /// Opens the directory. Creates it if necessary, with a `.gitignore` that excludes all of its
    /// files.
    fn git_ignored_dir(&self, path: &str) -> Result<Dir> {
        let ignore_file = format!("{path}/.gitignore");
        let ignore_all = b"*\n";
        if !self.read(&ignore_file, 16).is_ok_and(|(bytes, _)| bytes == ignore_all) {
            self.write(&ignore_file, ignore_all, None)?;
        }
        self.root.dir.open_dir(self.relative(path)?).map_err(|e| self.error(path, "written to", &e))
    }
}

/// Returns the numbered files of a directory.
fn numbered_files(dir: &Dir) -> io::Result<Vec<NumberedFile>> {
    let mut files = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let Ok(file) = entry.file_name().into_string() else {
            continue;
        };
        let parts = file.strip_suffix(".txt").and_then(|name| name.rsplit_once('-'));
        let Some((series, number)) =
            parts.and_then(|(series, number)| Some((series, number.parse().ok()?)))
        else {
            continue;
        };
        // A file that was removed meanwhile is left out.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() {
            let modified =
                metadata.modified().map_or(SystemTime::UNIX_EPOCH, |time| time.into_std());
            files.push(NumberedFile {
                series: series.to_owned(),
                number,
                modified,
                bytes: metadata.len(),
                file,
            });
        }
    }
    Ok(files)
}
