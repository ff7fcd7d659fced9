//! Checks of a store after a power failure or a failed call.

use std::collections::HashMap;
use std::path::Path;

use loopwright_core::log::{LogEntry, MemoryError};
use serde_json::Value;

use crate::child::{Acknowledged, Kind, entry};

/// The operations that were acknowledged up to some time.
#[derive(Clone, Default)]
pub(crate) struct Promises {
    /// The number of entries of each session.
    entries: HashMap<String, u64>,
    branches: HashMap<String, Vec<Value>>,
}

impl Promises {
    /// Adds lines of acknowledgements.
    pub(crate) fn add(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line).expect("an acknowledgement") {
                Acknowledged::Entries(session, count) => drop(self.entries.insert(session, count)),
                Acknowledged::Branch(session, entries) => {
                    self.branches.insert(session, entries);
                }
                Acknowledged::MayBeDeleted(session) => drop(self.entries.remove(&session)),
                Acknowledged::Deleted(session) => {
                    self.entries.insert(session, 0); // and no more, see `check`
                }
            }
        }
    }
}

/// The state in which a store was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was opened, and nothing acknowledged is missing.
    Whole,
    /// It was refused with this error, which contains advice.
    Refused(String),
}

/// Opens the store below this root. Checks that it has everything acknowledged and nothing else,
/// and that the sessions can be continued.
pub(crate) async fn check(kind: Kind, root: &Path, promises: &Promises) -> Result<Outcome, String> {
    match sessions(kind, root, promises).await {
        Ok(()) => Ok(Outcome::Whole),
        Err(Problem::Wrong(why)) => Err(why),
        Err(Problem::Error(error)) => {
            let why = error.to_string();
            let has_remedy = ["restore", "remove", "give", "check"].iter().any(|w| why.contains(w));
            if has_remedy { Ok(Outcome::Refused(why)) } else { Err(format!("no remedy: {why}")) }
        }
    }
}

enum Problem {
    Error(MemoryError),
    Wrong(String),
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        Problem::Error(error)
    }
}

async fn sessions(kind: Kind, root: &Path, promises: &Promises) -> Result<(), Problem> {
    let store = kind.open(root)?;
    let mut names: Vec<&str> = vec!["a", "b", "d", "e"];
    names.extend(promises.branches.keys().map(|name| &**name));
    for name in &names {
        let memory = store.open(name).await?;
        let entries = memory.load(0).await?;
        let length = entries.len() as u64;
        let wrong = |what: &str| {
            let promised = promises.entries.get(*name);
            let repaired = memory.repaired();
            Problem::Wrong(format!("{name} {what}: {length} of {promised:?}, {repaired:?}"))
        };
        let json: Vec<Value> =
            entries.iter().map(|e| serde_json::to_value(e).expect("an entry is JSON")).collect();
        match promises.branches.get(*name) {
            Some(branch) if !json.starts_with(branch) => return Err(wrong("is no such branch")),
            Some(_) => {}
            None if (0..).zip(&entries).any(|(n, found)| *found != entry(name, n)) => {
                return Err(wrong("has other entries"));
            }
            None if promises.entries.get(*name).is_some_and(|count| length < *count) => {
                return Err(wrong("has lost entries"));
            }
            None if *name == "b" && promises.entries.get("b") == Some(&0) && length > 0 => {
                return Err(wrong("was deleted"));
            }
            None => {}
        }
        let next = entry(name, 7 * length);
        memory.append(length, [next.clone(), LogEntry::Reset].into()).await?;
        let expected = [&*entries, &[next, LogEntry::Reset]].concat();
        drop(memory);
        if store.read(name, 0).await? != expected {
            return Err(Problem::Wrong(format!("{name} cannot be continued")));
        }
    }
    let listed = store.sessions().await?;
    let is_listed = |name: &&str| listed.iter().any(|info| *info.id == **name);
    match names.iter().all(is_listed) {
        true => Ok(()),
        false => Err(Problem::Wrong(format!("sessions are not listed: {listed:?}"))),
    }
}
