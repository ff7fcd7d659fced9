//! Rewriting of a file after a failed flush.
//!
//! When a flush fails, the kernel reports it once and then counts the pages as written, although
//! they may not be on disk. Later flushes succeed without them. After a power failure, even data
//! that was appended after them is unreadable. Rewritten pages are part of the next flush, of any
//! process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

const CHUNK_BYTES: usize = 1 << 16;

/// Writes the content of a file over itself, so that the next flush includes all of it. No other
/// process or thread may write to the file meanwhile.
pub(crate) fn rewrite(mut file: &File) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut position = 0;
    loop {
        file.seek(SeekFrom::Start(position))?;
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        file.seek(SeekFrom::Start(position))?;
        file.write_all(&chunk[..read])?;
        position += read as u64;
    }
}
