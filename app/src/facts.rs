//! The facts that agents remember about the user of this machine, across sessions.

use std::path::{Path, PathBuf};

use loopwright_core::Principal;
use loopwright_memory::long_term::{Fact, LongTerm, LongTermError, Scope};
use tokio::task::spawn_blocking;

use crate::environment::Names;
use crate::error::StartError;
use crate::output::write_new_file;

/// The forms of `/memory`.
const USAGE: &str = "Write `/memory`, `/memory find WORDS`, `/memory forget ID`, `/memory forget \
                     all`, `/memory distil` or `/memory export FILE`.";

/// The explanation for sessions that do not remember facts.
pub(crate) const OFF: &str =
    "Facts are neither stored nor used in this session: `--memory` switches that on.";

/// Maximum number of facts that are listed.
const MAX_LISTED: usize = 500;

/// Returns the principal of sessions: the user of this machine, who owns the facts.
pub(crate) fn user() -> Principal {
    Principal::new("local")
}

/// Opens the facts if `memory` is set, creating the file if it is missing.
pub(crate) fn open_if(memory: Option<bool>, names: &Names) -> Result<Option<LongTerm>, StartError> {
    if !memory.unwrap_or_default() {
        return Ok(None);
    }
    let path = path(names).ok_or_else(|| {
        let why = "Facts cannot be remembered, because HOME is not set: leave out --memory.";
        StartError(why.into())
    })?;
    open(&path).map(Some)
}

fn path(names: &Names) -> Option<PathBuf> {
    Some(names.data_directory()?.join("memory.db"))
}

fn open(path: &Path) -> Result<LongTerm, StartError> {
    LongTerm::open(path).map_err(|why| {
        StartError(format!("The facts in {} cannot be opened: {why}.", path.display()))
    })
}

impl From<LongTermError> for StartError {
    fn from(why: LongTermError) -> Self {
        StartError(format!("{why}."))
    }
}

/// A `/memory` command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemoryCommand {
    List,
    /// List the facts that match these words.
    Find(String),
    Forget(u64),
    ForgetAll,
    /// Write all facts to a new file, as JSON Lines.
    Export(PathBuf),
}

impl MemoryCommand {
    /// Parses the arguments of `/memory`. The error lists the valid ones.
    pub(crate) fn read(rest: &str) -> Result<Self, &'static str> {
        let (word, rest) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        match (word, rest.trim()) {
            ("", _) => Ok(MemoryCommand::List),
            ("find", words) if !words.is_empty() => Ok(MemoryCommand::Find(words.to_owned())),
            ("export", file) if !file.is_empty() => Ok(MemoryCommand::Export(file.into())),
            ("forget", "all") => Ok(MemoryCommand::ForgetAll),
            ("forget", id) if id.parse::<u64>().is_ok() => {
                Ok(MemoryCommand::Forget(id.parse().unwrap_or_default()))
            }
            _ => Err(USAGE),
        }
    }

    /// Returns whether the arguments of `/memory` ask to distil facts from the conversation, which
    /// the session itself does.
    pub(crate) fn is_distil(rest: &str) -> bool {
        rest.trim() == "distil"
    }

    /// Runs the command. `is_on` is true if the session remembers facts.
    pub(crate) async fn run(self, is_on: bool, names: &Names) -> Result<Answer, StartError> {
        let found = match path(names).filter(|path| path.exists()) {
            Some(path) => {
                // Opening blocks while another process writes.
                let opened = spawn_blocking(move || open(&path)).await;
                let memory = opened.unwrap_or_else(|why| Err(StartError(why.to_string())))?;
                self.run_on(&memory).await?
            }
            None => Answer::default(),
        };
        let off = (!is_on).then(|| OFF.to_owned());
        let none = (found.facts.is_empty() && found.notes.is_empty())
            .then(|| "There are no remembered facts.".to_owned());
        let notes = found.notes.into_iter().chain(none).chain(off).collect();
        Ok(Answer { facts: found.facts, notes })
    }

    async fn run_on(self, memory: &LongTerm) -> Result<Answer, StartError> {
        let scope = Scope::from(&user());
        let done = |text: String| Answer { facts: Vec::new(), notes: vec![text] };
        Ok(match self {
            MemoryCommand::List => {
                let mut facts = memory.facts(&[scope], 0, MAX_LISTED + 1).await?;
                let more = facts.len() > MAX_LISTED;
                facts.truncate(MAX_LISTED);
                let note = || {
                    format!("These are the {MAX_LISTED} oldest; `/memory find WORDS` finds others.")
                };
                Answer { facts, notes: more.then(note).into_iter().collect() }
            }
            MemoryCommand::Find(words) => {
                match memory.recall(&[scope], &words, MAX_LISTED).await? {
                    none if none.is_empty() => {
                        done("There are no remembered facts that fit.".into())
                    }
                    facts => Answer { facts, notes: Vec::new() },
                }
            }
            MemoryCommand::Forget(id) => done(match memory.forget(&scope, id).await? {
                true => format!("Fact {id} is deleted."),
                false => format!("There is no fact {id}: `/memory` lists the facts."),
            }),
            MemoryCommand::Export(file) => {
                let export = memory.export(&scope).await?;
                write_new_file(&file, &export)?;
                let facts = export.lines().count() - 1; // without the header
                done(format!("{facts} facts are in {}, as JSON Lines.", file.display()))
            }
            MemoryCommand::ForgetAll => match memory.forget_all(&scope).await? {
                0 => Answer::default(),
                1 => done("1 fact is deleted.".into()),
                facts => done(format!("{facts} facts are deleted.")),
            },
        })
    }
}

/// The output of `/memory`.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) facts: Vec<Fact>,
    /// Sentences for the user.
    pub(crate) notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_read() {
        assert_eq!(MemoryCommand::read(" "), Ok(MemoryCommand::List));
        assert_eq!(MemoryCommand::read("find the cat"), Ok(MemoryCommand::Find("the cat".into())));
        assert_eq!(MemoryCommand::read("forget 7"), Ok(MemoryCommand::Forget(7)));
        assert_eq!(MemoryCommand::read("forget  all "), Ok(MemoryCommand::ForgetAll));
        assert_eq!(MemoryCommand::read("export a b"), Ok(MemoryCommand::Export("a b".into())));
        assert!(MemoryCommand::is_distil(" distil ") && !MemoryCommand::is_distil("distil it"));
        for wrong in
            ["forget", "forget -1", "forget 7 8", "forget everything", "find", "7", "export"]
        {
            assert!(MemoryCommand::read(wrong).is_err(), "{wrong}");
        }
    }
}
