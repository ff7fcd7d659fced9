//! The file of a cassette: a line with the version of the format; a line for each model, list of
//! tools, request and call; and a line at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::CassetteError;
use super::recorded_spec::RecordedSpec;
use super::request::Change;
use crate::error::{ActionRequest, ToolError};
use crate::message::CallId;
use crate::model::{ModelEvent, ModelInfo};
use crate::tool::{ToolOutput, ToolUpdate};

const VERSION: u32 = 1;

/// The first line of the file.
#[derive(Serialize, Deserialize)]
struct Header {
    loopwright_cassette: u32,
}

/// A line after the first one.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Model(ModelLine),
    Tools(ToolsLine),
    Request(RequestLine),
    Call(CallLine),
    /// The last line, which shows that the cassette is complete.
    End,
}

/// The key of an agent: its number among the agents that the cassette wrapped, from 1, and the
/// names of the sub-agents from it downwards, joined by `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct AgentKey {
    pub(super) agent: usize,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) sub_agent: String,
}

/// A model of an agent.
#[derive(Serialize, Deserialize)]
pub(super) struct ModelLine {
    #[serde(flatten)]
    pub(super) of: AgentKey,
    /// The agent's name of the model; `None` for its main model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) info: ModelInfo,
}

/// A listing of a source of tools.
#[derive(Serialize, Deserialize)]
pub(super) struct ToolsLine {
    #[serde(flatten)]
    pub(super) of: AgentKey,
    pub(super) prefix: String,
    pub(super) listing: Listing,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Listing {
    Tools(Vec<RecordedSpec>),
    /// The same tools as in the previous listing.
    Unchanged,
    Failed(String),
}

/// A request and its reply.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub(super) session: String,
    /// Number of the request in its session, from 1, in sending order.
    pub(super) number: usize,
    pub(super) request: Change,
    pub(super) events: Vec<ModelEvent>,
    /// `true` if the reply was dropped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cut_off: bool,
}

/// A call of a tool.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct CallLine {
    pub(super) session: String,
    /// Number of the call in its session, from 1, in starting order.
    pub(super) number: usize,
    pub(super) id: CallId,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// `true` if the call continued after a decision. The decision may be a secret, and is not
    /// recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) decided: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) updates: Vec<ToolUpdate>,
    /// `true` if the call was cancelled before it ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cancelled: bool,
    pub(super) end: CallEnd,
}

/// The end of a call.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallEnd {
    Returned(ToolOutput),
    Failed {
        why: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    Cancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
    },
    Suspended(ActionRequest),
    /// The call was dropped before it ended.
    CutOff,
}

impl CallEnd {
    pub(super) fn of(result: &Result<ToolOutput, ToolError>) -> Self {
        match result.clone() {
            Ok(output) => CallEnd::Returned(output),
            Err(ToolError::Failed(why)) => CallEnd::Failed { why, details: None },
            Err(ToolError::FailedWith { why, details }) => {
                CallEnd::Failed { why, details: Some(details) }
            }
            Err(ToolError::Cancelled) => CallEnd::Cancelled { output: None, details: Value::Null },
            Err(ToolError::CancelledWith { output, details }) => {
                CallEnd::Cancelled { output: Some(output), details }
            }
            Err(ToolError::Suspend(request)) => CallEnd::Suspended(request),
        }
    }

    /// Returns the tool's return value, or `None` if the call was dropped before it ended.
    pub(super) fn result(self) -> Option<Result<ToolOutput, ToolError>> {
        Some(match self {
            CallEnd::Returned(output) => Ok(output),
            CallEnd::Failed { why, details: None } => Err(ToolError::Failed(why)),
            CallEnd::Failed { why, details: Some(details) } => {
                Err(ToolError::FailedWith { why, details })
            }
            CallEnd::Cancelled { output: None, .. } => Err(ToolError::Cancelled),
            CallEnd::Cancelled { output: Some(output), details } => {
                Err(ToolError::CancelledWith { output, details })
            }
            CallEnd::Suspended(request) => Err(ToolError::Suspend(request)),
            CallEnd::CutOff => return None,
        })
    }
}

/// A file to which lines are appended.
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    /// Length of all complete lines, in bytes.
    length: u64,
}

impl Writer {
    /// Creates the file, which only its owner can read, and missing folders.
    pub(super) fn create(path: &Path) -> Result<Self, CassetteError> {
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let open = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            options.open(path)
        };
        let file = open().map_err(|why: io::Error| match why.kind() {
            io::ErrorKind::AlreadyExists => {
                let advice = "exists already: delete it to record again, or replay it";
                CassetteError::file(path, advice)
            }
            _ => unwritten(path, &why),
        })?;
        let mut writer = Writer { path: path.to_owned(), file, length: 0 };
        writer.write(&Header { loopwright_cassette: VERSION })?;
        Ok(writer)
    }

    /// Returns a writer of an existing file whose writes all fail.
    #[cfg(test)]
    pub(super) fn read_only(path: &Path) -> Self {
        Writer { path: path.to_owned(), file: File::open(path).unwrap(), length: 0 }
    }

    /// Appends a line.
    pub(super) fn write(&mut self, value: &impl Serialize) -> Result<(), CassetteError> {
        let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)?;
            self.length += line.len() as u64;
            Ok(())
        });
        written.map_err(|why| {
            let _ = self.file.set_len(self.length); // a partial line would corrupt the next one
            unwritten(&self.path, &why)
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn unwritten(path: &Path, why: &io::Error) -> CassetteError {
    let why = format!("cannot be written: {why}; check its folder, and the space on the disk");
    CassetteError::file(path, why)
}

/// Reads a complete cassette. Returns its lines, each with its number, without the first and the
/// last.
pub(super) fn read(path: &Path) -> Result<Vec<(usize, Line)>, CassetteError> {
    let failed = |why: String| CassetteError::file(path, why);
    let bytes = fs::read(path).map_err(|why| {
        failed(format!("cannot be read: {why}; check the path, or record it first"))
    })?;
    // A truncated line may end within a character.
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.split_inclusive('\n').zip(1..);
    let header = lines.next().and_then(|(line, _)| serde_json::from_str::<Value>(line).ok());
    let version = header.as_ref().and_then(|header| header.get("loopwright_cassette")?.as_u64());
    match version {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(failed(format!(
                "has the version {version}, and this program reads version {VERSION}: delete the \
                 file and record it again"
            )));
        }
        None => {
            return Err(failed(
                "does not begin with the line that a cassette begins with: check the path, or \
                 delete the file and record it again"
                    .into(),
            ));
        }
    }
    let (mut read, mut has_ended) = (Vec::new(), false);
    for (line, number) in lines {
        if !line.ends_with('\n') {
            break; // it was cut off
        }
        if has_ended {
            return Err(failed(format!("has a line {number} after its end: record it again")));
        }
        match serde_json::from_str(line) {
            Ok(Line::End) => has_ended = true,
            Ok(line) => read.push((number, line)),
            Err(why) => {
                return Err(failed(format!(
                    "has a line {number} that cannot be read: {why}; record it again"
                )));
            }
        }
    }
    match has_ended {
        true => Ok(read),
        false => Err(failed(
            "was cut off: the program that recorded it ended before `Cassette::finish`; delete \
             the file and record it again"
                .into(),
        )),
    }
}
