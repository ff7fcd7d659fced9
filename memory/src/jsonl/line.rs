//! The lines of a log: the header, and one line an append.

use loopwright_core::log::{LogEntry, MemoryError};
use serde::{Deserialize, Serialize};

use crate::codec;

/// The version of the format.
pub(super) const VERSION: u64 = 1;

/// How a header begins.
pub(super) const HEADER: &[u8] = br#"{"loopwright":"session","version":1,"crc":""#;

/// Whose log it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) session: String,
    /// The session whose first items come before those of this log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<Parent>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parent {
    pub(super) session: String,
    pub(super) items: u64,
}

/// Why a line cannot be read.
#[derive(Debug, PartialEq)]
pub(super) enum Bad {
    Damaged(String),
    /// It is as it was written, and not understood.
    Unknown(String),
    Newer(u64),
}

impl Header {
    /// The first line of the log, with its end.
    pub(super) fn line(&self) -> Result<Vec<u8>, MemoryError> {
        let failed =
            |e| MemoryError::Failed(format!("the head of a log cannot be written as JSON: {e}"));
        let fields = serde_json::to_vec(self).map_err(failed)?;
        let fields = &fields[1..]; // after the brace
        let crc = format!("{:08x}", crc32fast::hash(fields));
        Ok([HEADER, crc.as_bytes(), b"\",", fields, b"\n"].concat())
    }

    /// Reads the first line, without its end.
    pub(super) fn of(line: &[u8]) -> Result<Header, Bad> {
        let damaged = |why: &str| Bad::Damaged(why.to_owned());
        let Some(rest) = line.strip_prefix(HEADER) else {
            #[derive(Deserialize)]
            struct Any {
                loopwright: String,
                version: u64,
            }
            return Err(match serde_json::from_slice(line) {
                Ok(Any { loopwright, version }) if loopwright == "session" && version > VERSION => {
                    Bad::Newer(version)
                }
                _ => damaged("it does not begin as the log of a session does"),
            });
        };
        let (crc, fields) =
            split_crc(rest, b"\",").ok_or_else(|| damaged("its checksum is missing"))?;
        check(crc, fields).map_err(Bad::Damaged)?;
        serde_json::from_slice(&[b"{", fields].concat()).map_err(|e| Bad::Unknown(e.to_string()))
    }
}

/// The line of an append, with its end.
pub(super) fn append(at: u64, items: &[LogEntry]) -> Result<Vec<u8>, MemoryError> {
    let items = codec::encode(items)?;
    let head = format!(r#"{}{:08x}","items":"#, begin(at), crc32fast::hash(items.as_bytes()));
    Ok([head.as_bytes(), items.as_bytes(), b"}\n"].concat())
}

/// How such a line begins.
pub(super) fn begin(at: u64) -> String {
    format!(r#"{{"at":{at},"crc":""#)
}

/// The items of such a line, without its end, where `at` items come before it.
pub(super) fn items(line: &[u8], at: u64) -> Result<Vec<LogEntry>, Bad> {
    let damaged = |why: &str| Bad::Damaged(why.to_owned());
    let (said, crc, items) = parts(line)
        .ok_or_else(|| damaged("it is not of the form {\"at\":…,\"crc\":\"…\",\"items\":[…]}"))?;
    check(crc, items).map_err(Bad::Damaged)?;
    if said != at.to_string().as_bytes() {
        let said = String::from_utf8_lossy(said);
        return Err(damaged(&format!("it says that {said} items come before it, and {at} do")));
    }
    codec::decode(items).map_err(Bad::Unknown)
}

fn parts(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let rest = line.strip_prefix(br#"{"at":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (at, rest) = rest.split_at(digits);
    let (crc, rest) = split_crc(rest.strip_prefix(br#","crc":""#)?, br#"","items":"#)?;
    Some((at, crc, rest.strip_suffix(b"}")?))
}

/// The eight digits of a checksum, and what comes after `then`.
fn split_crc<'a>(text: &'a [u8], then: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (crc, rest) = text.split_at_checked(8)?;
    Some((crc, rest.strip_prefix(then)?))
}

fn check(said: &[u8], bytes: &[u8]) -> Result<(), String> {
    let crc = format!("{:08x}", crc32fast::hash(bytes));
    match said == crc.as_bytes() {
        true => Ok(()),
        false => Err(format!("its checksum is {crc}, not {}", String::from_utf8_lossy(said))),
    }
}
