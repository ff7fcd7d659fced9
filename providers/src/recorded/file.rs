//! The file of a recording: a header line, and one line per exchange.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo};
use serde::{Deserialize, Serialize};

use super::request::{Change, RecordedRequest};

const VERSION: u32 = 1;

/// The header line.
#[derive(Serialize, Deserialize)]
struct Head {
    loopwright_recording: u32,
    model: ModelInfo,
}

/// One request and its reply.
#[derive(Serialize, Deserialize)]
pub(super) struct Exchange {
    /// The position in the order of the requests, from 1.
    exchange: usize,
    request: Change,
    pub(super) events: Vec<ModelEvent>,
    /// `true` if the caller dropped the reply before its end.
    #[serde(rename = "left", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) abandoned: bool,
}

/// A file that is being recorded.
pub(super) struct Tape {
    path: PathBuf,
    file: File,
    /// The total length of the complete lines, in bytes.
    length: u64,
    asked: RecordedRequest,
    exchanges: usize,
}

impl Tape {
    pub(super) fn create(path: &Path, info: &ModelInfo) -> Result<Self, ModelError> {
        let open = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            OpenOptions::new().append(true).create_new(true).open(path)
        };
        let file = open().map_err(|why| match why.kind() {
            io::ErrorKind::AlreadyExists => refused(format!(
                "There is a recording {} already. Delete it to record again, or replay it.",
                path.display()
            )),
            _ => unwritten(path, &why),
        })?;
        let mut tape = Tape {
            path: path.to_owned(),
            file,
            length: 0,
            asked: RecordedRequest::default(),
            exchanges: 0,
        };
        tape.line(&Head { loopwright_recording: VERSION, model: info.clone() })?;
        Ok(tape)
    }

    /// Returns a tape whose writes all fail.
    #[cfg(test)]
    pub(super) fn unwritable(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        Tape {
            path: path.to_owned(),
            file,
            length: 0,
            asked: RecordedRequest::default(),
            exchanges: 0,
        }
    }

    /// Starts the next exchange.
    pub(super) fn begin(&mut self, request: &ChatRequest) -> Exchange {
        self.exchanges += 1;
        let request = self.asked.next(request.into());
        Exchange { exchange: self.exchanges, request, events: Vec::new(), abandoned: false }
    }

    /// Appends a finished exchange.
    pub(super) fn write(&mut self, exchange: &Exchange) -> Result<(), ModelError> {
        self.line(exchange)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), ModelError> {
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
}

fn unwritten(path: &Path, why: &io::Error) -> ModelError {
    refused(format!(
        "The recording {} cannot be written: {why}. Check the folder and the space on it.",
        path.display()
    ))
}

/// A file that is being replayed.
pub(super) struct Recording {
    path: PathBuf,
    exchanges: BTreeMap<usize, Exchange>,
    /// The number of requests so far.
    requests: usize,
    recorded: RecordedRequest,
}

impl Recording {
    pub(super) fn read(path: &Path) -> Result<(ModelInfo, Self), ModelError> {
        let display = path.display();
        let bytes = fs::read(path).map_err(|why| {
            refused(format!(
                "The recording {display} cannot be read: {why}. Check the path, or record it first."
            ))
        })?;
        // A truncated line may end within a character.
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split_inclusive('\n');
        let head =
            lines.next().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let version = head.as_ref().and_then(|head| head.get("loopwright_recording")?.as_u64());
        match version {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                let why = format!(
                    "{display} is a recording of version {version}, and this program reads \
                     version {VERSION}"
                );
                return Err(refused(format!("{why}. Delete it and record it again.")));
            }
            None => {
                let why = "does not begin with the line that a recording begins with";
                return Err(refused(format!(
                    "{display} {why}. Check the path, or delete the file and record it again."
                )));
            }
        }
        let head: Head = serde_json::from_value(head.unwrap_or_default()).map_err(|why| {
            refused(format!("Line 1 of the recording {display} says nothing of its model: {why}."))
        })?;
        let mut exchanges = BTreeMap::new();
        for (line, number) in lines.zip(2..) {
            if !line.ends_with('\n') {
                let why = "is cut off: the program ended while it was written";
                let advice =
                    "Delete the file to record it again, or that line to keep what comes before it";
                return Err(refused(format!(
                    "Line {number} of the recording {display} {why}. {advice}."
                )));
            }
            let exchange: Exchange = serde_json::from_str(line).map_err(|why| {
                refused(format!(
                    "Line {number} of the recording {display} is no exchange: {why}. Record it \
                     again."
                ))
            })?;
            if exchanges.contains_key(&exchange.exchange) {
                let twice = format!("has exchange {} a second time", exchange.exchange);
                return Err(refused(format!(
                    "Line {number} of the recording {display} {twice}. Record it again."
                )));
            }
            exchanges.insert(exchange.exchange, exchange);
        }
        let recorded = RecordedRequest::default();
        Ok((head.model, Recording { path: path.to_owned(), exchanges, requests: 0, recorded }))
    }

    pub(super) fn remaining(&self) -> usize {
        self.exchanges.len()
    }

    /// Returns the recorded reply to the next request.
    pub(super) fn answer(&mut self, request: &ChatRequest) -> Vec<ModelEvent> {
        self.requests += 1;
        let (number, display) = (self.requests, self.path.display().to_string());
        self.events(request).unwrap_or_else(|why| {
            let advice = "Change the test, or delete the file to record it again";
            vec![ModelEvent::Error(refused(format!(
                "Request {number} to the recording {display}: {why}. {advice}."
            )))]
        })
    }

    fn events(&mut self, request: &ChatRequest) -> Result<Vec<ModelEvent>, String> {
        let Some(exchange) = self.exchanges.remove(&self.requests) else {
            return Err(match self.exchanges.is_empty() {
                true => format!("it has only {} exchanges", self.requests - 1),
                false => "this exchange is missing".to_owned(),
            });
        };
        if !self.recorded.apply(exchange.request) {
            return Err("the exchange continues one that is missing".to_owned());
        }
        match self.recorded.difference(&request.into()) {
            Some(difference) => Err(format!(
                "the request differs from exchange {}: {difference}",
                exchange.exchange
            )),
            None => {
                let mut events = exchange.events;
                if exchange.abandoned {
                    let why = "The reply was not waited for when it was recorded, and what came \
                               later is not known.";
                    events.push(ModelEvent::Error(refused(why.to_owned())));
                }
                Ok(events)
            }
        }
    }
}

/// Returns an error that no retry can fix.
fn refused(why: String) -> ModelError {
    ModelError::new(ModelErrorKind::InvalidRequest, why)
}
