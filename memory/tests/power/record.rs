//! Changes of a process to its disk, recorded by `disk.c`.

use std::path::Path;

/// A change, or a flush.
pub(crate) enum Change {
    /// These bytes were written to a file at this position.
    Write { file: u64, at: u64, bytes: Vec<u8> },
    /// A file has this size from here on.
    Truncate { file: u64, size: u64 },
    /// A file was emptied by opening it.
    Empty(u64),
    /// A file or a directory was flushed.
    Flushed(u64),
    /// A flush of a file or a directory failed.
    FlushFailed(u64),
    /// A directory got a new file, or a new directory.
    Create { directory: u64, name: String, file: u64, is_directory: bool },
    /// A directory got another name for a file.
    Link { directory: u64, name: String, file: u64 },
    /// A file got another name in the same directory.
    Rename { directory: u64, from: String, to: String, file: u64 },
    /// A directory lost a name.
    Unlink { directory: u64, name: String },
}

/// The changes of one or more processes, in their order.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) changes: Vec<Change>,
    /// `true` if a call was made to fail.
    pub(crate) has_failed: bool,
}

impl Record {
    /// Reads the record in this file.
    pub(crate) fn read(path: &Path) -> Record {
        let bytes = std::fs::read(path).expect("the record");
        let mut rest = &bytes[..];
        let mut record = Record::default();
        while let Some((head, tail)) = rest.split_first_chunk::<32>() {
            let number = |n: usize| {
                u64::from_ne_bytes(head[8 * n..8 * n + 8].try_into().expect("eight bytes"))
            };
            let (file, at, length) = (number(1), number(2), number(3) as usize);
            let (bytes, tail) = tail.split_at(length);
            let name = || String::from_utf8(bytes.to_vec()).expect("a name in UTF-8");
            rest = tail;
            record.changes.push(match number(0) as u8 {
                b'W' => Change::Write { file, at, bytes: bytes.to_vec() },
                b'T' => Change::Truncate { file, size: at },
                b'O' => Change::Empty(file),
                b'S' => Change::Flushed(file),
                b'E' => Change::FlushFailed(file),
                kind @ (b'C' | b'D') => {
                    Change::Create { directory: at, name: name(), file, is_directory: kind == b'D' }
                }
                b'L' => Change::Link { directory: at, name: name(), file },
                b'R' => {
                    let name = name();
                    let (from, to) = name.split_once('/').expect("two names");
                    Change::Rename { directory: at, from: from.into(), to: to.into(), file }
                }
                b'U' => Change::Unlink { directory: at, name: name() },
                b'F' => {
                    record.has_failed = true;
                    continue;
                }
                other => panic!("{other} is no change"),
            });
        }
        record
    }
}
