//! Results that are written to a file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::error::StartError;

/// Writes a new file that only the user can read, since it contains a conversation.
///
/// # Errors
///
/// Fails if the file exists or cannot be written.
pub(crate) fn write_new_file(file: &Path, text: &str) -> Result<(), StartError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|why| StartError(format!("{} cannot be written: {why}.", file.display())))
}
