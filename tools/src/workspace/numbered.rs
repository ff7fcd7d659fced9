//! Files that are kept for a while, each under a name of its own.

use std::io::{self, Write};
use std::time::SystemTime;

use cap_std::fs::{Dir, OpenOptions};

use super::{Result, Workspace};

/// One of them.
struct Numbered {
    file: String,
    series: String,
    number: u64,
    modified: SystemTime,
}

impl Workspace {
    /// Puts `content` into a new file `SERIES-NUMBER.txt` of a directory that is there, and gives its path. What
    /// has a name keeps it: numbers only grow, and a file that was there is never written to. The oldest files
    /// are removed, of the series beyond `of_series`, and of all beyond `of_all`.
    pub(crate) fn add_numbered(
        &self,
        path: &str,
        series: &str,
        content: &[u8],
        of_series: usize,
        of_all: usize,
    ) -> Result<String> {
        let fail = |e: io::Error| self.error(path, "written to", &e);
        let dir = self.root.dir.open_dir(self.inside(path)?).map_err(fail)?;
        let mut there = numbered(&dir).map_err(fail)?;
        let last = there.iter().filter(|file| file.series == series).map(|file| file.number).max();
        let mut number = last.unwrap_or_default().saturating_add(1);
        let (file, mut open) = loop {
            let file = format!("{series}-{number}.txt");
            match dir.open_with(&file, OpenOptions::new().write(true).create_new(true)) {
                Ok(open) => break (file, open),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u64::MAX => number += 1,
                Err(e) => return Err(fail(e)),
            }
        };
        if let Err(e) = open.write_all(content) {
            let _ = dir.remove_file(&file); // as if it had not been begun
            return Err(fail(e));
        }
        // The new one counts, but is never removed.
        there.sort_by_key(|file| (file.modified, file.number));
        let (mut own, mut all) = (1, 1);
        for old in there.iter().rev().filter(|old| old.file != file) {
            own += usize::from(old.series == series);
            all += 1;
            if all > of_all || (old.series == series && own > of_series) {
                let _ = dir.remove_file(&old.file); // another process may have done it
                all -= 1;
            }
        }
        Ok(format!("{path}/{file}"))
    }
}

fn numbered(dir: &Dir) -> io::Result<Vec<Numbered>> {
    let mut files = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let Ok(file) = entry.file_name().into_string() else { continue };
        let parts = file.strip_suffix(".txt").and_then(|name| name.rsplit_once('-'));
        let Some((series, number)) = parts.and_then(|(series, number)| Some((series, number.parse().ok()?))) else {
            continue;
        };
        // One that is gone by now was not there.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            let modified = metadata.modified().map_or(SystemTime::UNIX_EPOCH, |time| time.into_std());
            files.push(Numbered { series: series.to_owned(), number, modified, file });
        }
    }
    Ok(files)
}
