//! Completions: commands and what follows them, and files.

use std::collections::HashMap;

use super::commands::COMMANDS;
use super::effect::{Choice, Source};

/// The most that are offered at once.
const MOST: usize = 200;

/// What is offered for what is being written.
#[derive(Debug)]
pub(crate) struct Popup {
    pub(crate) what: What,
    /// What was written of it.
    pub(crate) written: String,
    pub(crate) found: Vec<Choice>,
    pub(crate) chosen: usize,
    /// What there is to choose from is still being looked for.
    pub(crate) waits: bool,
}

/// What is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The command itself.
    Command,
    /// What follows a command.
    Argument(Source),
    /// The level of thinking.
    Level,
    /// A file in a text.
    File,
}

/// What can be chosen from, as far as it is known.
pub(crate) type Known = HashMap<Source, Vec<Choice>>;

/// What is being written before the cursor, and how it begins.
pub(crate) fn wanted(before_cursor: &str, one_line: bool) -> Option<(What, String)> {
    if one_line && let Some(command) = before_cursor.strip_prefix('/') {
        return match command.split_once(' ') {
            None => Some((What::Command, command.to_owned())),
            Some(("model", name)) => {
                Some((What::Argument(Source::Models), name.trim_start().to_owned()))
            }
            Some(("sessions", name)) => {
                Some((What::Argument(Source::Sessions), name.trim_start().to_owned()))
            }
            Some(("fork", id)) => {
                Some((What::Argument(Source::Messages), id.trim_start().to_owned()))
            }
            Some(("thinking", level)) => Some((What::Level, level.trim_start().to_owned())),
            Some(_) => None,
        };
    }
    let word = before_cursor.rsplit(char::is_whitespace).next()?;
    Some((What::File, word.strip_prefix('@')?.to_owned()))
}

impl What {
    /// Where it is looked for.
    pub(crate) fn source(self) -> Option<Source> {
        match self {
            What::Command | What::Level => None,
            What::Argument(source) => Some(source),
            What::File => Some(Source::Files),
        }
    }
}

impl Popup {
    /// What there is for it.
    pub(crate) fn new(what: What, written: String, known: &Known) -> Self {
        let listed = what.source().and_then(|source| known.get(&source));
        let found = match what {
            What::Command => commands(&written),
            What::Level => levels(&written),
            What::Argument(Source::Models) => models(listed, &written),
            What::Argument(_) | What::File => {
                listed.map(|all| matching(all, &written)).unwrap_or_default()
            }
        };
        let waits = what.source().is_some() && listed.is_none();
        Popup { what, written, found, chosen: 0, waits }
    }

    /// Whether it is on the screen: with what there is, or with why there is nothing.
    pub(crate) fn is_shown(&self) -> bool {
        !self.found.is_empty() || self.waits || self.what == What::File
    }

    /// The one that is chosen.
    pub(crate) fn choice(&self) -> Option<&Choice> {
        self.found.get(self.chosen)
    }

    pub(crate) fn up(&mut self) {
        self.chosen = self.chosen.checked_sub(1).unwrap_or(self.found.len().saturating_sub(1));
    }

    pub(crate) fn down(&mut self) {
        self.chosen = if self.chosen + 1 < self.found.len() { self.chosen + 1 } else { 0 };
    }
}

/// Models that are known, and what was written if it could be one that is not.
fn models(known: Option<&Vec<Choice>>, written: &str) -> Vec<Choice> {
    let mut found = known.map(|all| matching(all, written)).unwrap_or_default();
    if written.contains('/') && found.first().is_none_or(|first| first.value != written) {
        found.insert(0, Choice::new(written, "as written"));
    }
    found
}

fn commands(written: &str) -> Vec<Choice> {
    let fits = COMMANDS.iter().filter(|command| command.name.starts_with(written));
    fits.map(|command| Choice::new(command.name, command.help)).collect()
}

fn levels(written: &str) -> Vec<Choice> {
    let all = ["off", "minimal", "low", "medium", "high", "xhigh"];
    all.iter()
        .filter(|level| level.starts_with(written))
        .map(|level| Choice::new(*level, ""))
        .collect()
}

/// Those that have all that was written, best first: at the beginning of the last part, in one
/// piece, in this order.
fn matching(all: &[Choice], written: &str) -> Vec<Choice> {
    let written = written.to_lowercase();
    let mut found: Vec<(u32, &Choice)> =
        all.iter().filter_map(|choice| Some((score(choice, &written)?, choice))).collect();
    found.sort_by_key(|(score, _)| *score); // stable: otherwise as they were
    found.into_iter().take(MOST).map(|(_, choice)| choice.clone()).collect()
}

fn score(choice: &Choice, written: &str) -> Option<u32> {
    if written.is_empty() {
        return Some(0);
    }
    let value = choice.value.trim_matches('"').to_lowercase();
    let last = value.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if value == written {
        return Some(0);
    }
    if last.starts_with(written) || value.starts_with(written) {
        return Some(1);
    }
    if value.contains(written) {
        return Some(2);
    }
    if choice.note.to_lowercase().contains(written) {
        return Some(3);
    }
    let mut letters = value.chars();
    written.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(4)
}
