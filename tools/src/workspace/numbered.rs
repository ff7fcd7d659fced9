//! Files that are kept for a while, each under a name of its own.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use cap_std::fs::{Dir, OpenOptions};

use super::{Result, Workspace};

/// One of them.
struct Numbered {
    file: String,
    series: String,
    number: u64,
    modified: SystemTime,
    bytes: u64,
}

/// How many of them are kept, and how many bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) of_series: usize,
    pub(crate) of_all: usize,
    pub(crate) bytes: u64,
}

impl Workspace {
    /// A file without a name, on the disk of such a directory. It is gone with whoever has it open.
    pub(crate) fn spool(&self, path: &str) -> Result<File> {
        let dir = self.ignored(path)?;
        super::directory::nameless(&dir, &self.root.real.join(path))
            .map_err(|e| self.error(path, "written to", &e))
    }

    /// Fills a new file `SERIES-NUMBER.txt` of a directory that git ignores, and gives its path.
    /// What has a name keeps it: numbers only grow, and a file that was there is never written to.
    /// The oldest files are removed.
    pub(crate) fn add_numbered(
        &self,
        path: &str,
        series: &str,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
        most: Most,
    ) -> Result<String> {
        let fail = |e: io::Error| self.error(path, "written to", &e);
        let dir = self.ignored(path)?;
        let mut there = numbered(&dir).map_err(fail)?;
        let last = there.iter().filter(|file| file.series == series).map(|file| file.number).max();
        let mut number = last.unwrap_or_default().saturating_add(1);
        let (file, mut open) = loop {
            let file = format!("{series}-{number}.txt");
            match dir.open_with(&file, OpenOptions::new().write(true).create_new(true)) {
                Ok(open) => break (file, open.into_std()),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u64::MAX => {
                    number += 1
                }
                Err(e) => return Err(fail(e)),
            }
        };
        if let Err(e) = fill(&mut open) {
            let _ = dir.remove_file(&file); // as if it had not been begun
            return Err(fail(e));
        }
        // The new one counts, but is never removed.
        there.sort_by_key(|file| (file.modified, file.number));
        let (mut own, mut all, mut bytes) = (1, 1, open.metadata().map_err(fail)?.len());
        for old in there.iter().rev().filter(|old| old.file != file) {
            own += usize::from(old.series == series);
            all += 1;
            bytes = bytes.saturating_add(old.bytes);
            if all > most.of_all
                || bytes > most.bytes
                || (old.series == series && own > most.of_series)
            {
                let _ = dir.remove_file(&old.file); // another process may have done it
                all -= 1;
                bytes -= old.bytes.min(bytes);
            }
        }
        Ok(format!("{path}/{file}"))
    }

    /// The directory, made so that it is not taken for a part of the project.
    fn ignored(&self, path: &str) -> Result<Dir> {
        let (ignore, all) = (format!("{path}/.gitignore"), b"*\n");
        if !self.read(&ignore, 16).is_ok_and(|(bytes, _)| bytes == all) {
            self.write(&ignore, all, None)?;
        }
        self.root.dir.open_dir(self.inside(path)?).map_err(|e| self.error(path, "written to", &e))
    }
}

fn numbered(dir: &Dir) -> io::Result<Vec<Numbered>> {
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
        // One that is gone by now was not there.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() {
            let modified =
                metadata.modified().map_or(SystemTime::UNIX_EPOCH, |time| time.into_std());
            files.push(Numbered {
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
