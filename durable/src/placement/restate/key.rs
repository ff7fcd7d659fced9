//! Keys of virtual objects.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use restate_sdk::prelude::TerminalError;

/// The characters of a session's name that stay unescaped in its key.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Returns the key of a session's object.
pub(super) fn key_of(session: &str) -> String {
    utf8_percent_encode(session, PLAIN).to_string()
}

/// Returns the session of an object's key.
pub(super) fn session_of(key: &str) -> Result<String, TerminalError> {
    let decoded = percent_decode_str(key).decode_utf8();
    let session = decoded.map_err(|_| TerminalError::new("the key names no session"))?;
    Ok(session.into_owned())
}
