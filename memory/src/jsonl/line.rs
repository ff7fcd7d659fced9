//! The lines of a log: the header, and one line for each append.

use loopwright_core::error::Failure;
use loopwright_core::log::{LogEntry, MemoryError};
use serde::{Deserialize, Serialize};

use crate::codec;

/// The version of the format.
pub(super) const VERSION: u64 = 1;

/// The beginning of every header.
pub(super) const HEADER: &[u8] = br#"{"loopwright":"session","version":1,"crc":""#;

/// The header of a log: its session, and the parent of a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) session: String,
    /// The session whose entries come first, if this log is a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<Parent>,
}

/// The parent of a branch, and the number of entries shared with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parent {
    pub(super) session: String,
    pub(super) entries: u64,
}

/// The reason why a line cannot be read.
#[derive(Debug, PartialEq)]
pub(super) enum LineError {
    /// The line does not match its checksum, or is not a line of a log.
    Damaged(String),
    /// The line matches its checksum and cannot be parsed.
    NotUnderstood(String),
    /// The line has this newer version of the format.
    Newer(u64),
}

impl Header {
    /// Returns the first line of the log, with its newline.
    pub(super) fn line(&self) -> Result<Vec<u8>, MemoryError> {
        let failed = |error: serde_json::Error| {
            let why = format!("the header of a log cannot be written as JSON: {error}");
            MemoryError::Failed(Failure::new(why).with_source(error))
        };
        let fields = serde_json::to_vec(self).map_err(failed)?;
        let fields = &fields[1..]; // after the brace
        let crc = format!("{:08x}", crc32fast::hash(fields));
        Ok([HEADER, crc.as_bytes(), b"\",", fields, b"\n"].concat())
    }

    /// Parses the first line, without its newline.
    pub(super) fn parse(line: &[u8]) -> Result<Header, LineError> {
        let damaged = |why: &str| LineError::Damaged(why.to_owned());
        let Some(rest) = line.strip_prefix(HEADER) else {
            return Err(Self::newer(line)
                .unwrap_or_else(|| damaged("it is not the first line of a session's log")));
        };
        let (crc, fields) =
            split_crc(rest, b"\",").ok_or_else(|| damaged("its checksum is missing"))?;
        check(crc, fields).map_err(LineError::Damaged)?;
        serde_json::from_slice(&[b"{", fields].concat())
            .map_err(|e| LineError::NotUnderstood(e.to_string()))
    }

    /// Returns the error for the header of a newer version, if the line is one.
    fn newer(line: &[u8]) -> Option<LineError> {
        #[derive(Deserialize)]
        struct AnyHeader {
            loopwright: String,
            version: u64,
        }
        let AnyHeader { loopwright, version } = serde_json::from_slice(line).ok()?;
        (loopwright == "session" && version > VERSION).then_some(LineError::Newer(version))
    }
}

/// Returns the line of an append, with its newline.
pub(super) fn append(at: u64, entries: &[LogEntry]) -> Result<Vec<u8>, MemoryError> {
    let entries = codec::encode(entries)?;
    let crc = crc32fast::hash(entries.as_bytes());
    let head = format!(r#"{}{crc:08x}","entries":"#, append_start(at));
    Ok([head.as_bytes(), entries.as_bytes(), b"}\n"].concat())
}

/// Returns the beginning of the line of an append.
pub(super) fn append_start(at: u64) -> String {
    format!(r#"{{"at":{at},"crc":""#)
}

/// Parses the line of an append, without its newline, where `at` entries precede it.
pub(super) fn parse_append(line: &[u8], at: u64) -> Result<Vec<LogEntry>, LineError> {
    let damaged = |why: &str| LineError::Damaged(why.to_owned());
    let (stored_at, crc, entries) = fields(line)
        .ok_or_else(|| damaged("it is not of the form {\"at\":…,\"crc\":\"…\",\"entries\":[…]}"))?;
    check(crc, entries).map_err(LineError::Damaged)?;
    if stored_at != at.to_string().as_bytes() {
        let stored = String::from_utf8_lossy(stored_at);
        return Err(damaged(&format!("its `at` is {stored}, but {at} entries precede it")));
    }
    codec::decode(entries).map_err(LineError::NotUnderstood)
}

/// Returns `true` if this is an intact line of an append with an entry that must be durable, or
/// that cannot be parsed.
pub(super) fn is_durable(line: &[u8]) -> bool {
    let Some((_, _, entries)) =
        fields(line).filter(|(_, crc, entries)| check(crc, entries).is_ok())
    else {
        return false;
    };
    let entries = codec::decode::<Vec<LogEntry>>(entries);
    entries.map_or(true, |entries| entries.iter().any(LogEntry::must_be_durable))
}

/// Returns `at`, `crc` and `entries` of the line of an append.
fn fields(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let rest = line.strip_prefix(br#"{"at":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (at, rest) = rest.split_at(digits);
    let (crc, rest) = split_crc(rest.strip_prefix(br#","crc":""#)?, br#"","entries":"#)?;
    Some((at, crc, rest.strip_suffix(b"}")?))
}

/// Splits off the eight digits of a checksum, and removes `separator` after them.
fn split_crc<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (crc, rest) = text.split_at_checked(8)?;
    Some((crc, rest.strip_prefix(separator)?))
}

fn check(stored: &[u8], bytes: &[u8]) -> Result<(), String> {
    let actual = format!("{:08x}", crc32fast::hash(bytes));
    match stored == actual.as_bytes() {
        true => Ok(()),
        false => Err(format!("its checksum is {actual}, not {}", String::from_utf8_lossy(stored))),
    }
}
