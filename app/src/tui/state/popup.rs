//! Completions: the choices for the text that is being written.

use std::collections::HashMap;

use loopwright_core::model::ThinkingLevel;

use super::effect::{Choice, Source};
use crate::slash::FrontEnd;

/// Maximum number of choices that are offered at once.
const MAX_CHOICES: usize = 200;

/// The choices for the text that is being written.
#[derive(Debug)]
pub(crate) struct Popup {
    pub(crate) what: What,
    /// The part that is already written.
    pub(crate) written: String,
    pub(crate) matches: Vec<Choice>,
    pub(crate) chosen: usize,
    /// `true` while the choices are being listed.
    pub(crate) is_loading: bool,
}

/// The subject of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The command itself.
    Command,
    /// The argument of a command.
    Argument(Source),
    /// A thinking level.
    Level,
    /// A file in a message.
    File,
}

/// The choices that have been listed, by source.
pub(crate) type Known = HashMap<Source, Vec<Choice>>;

/// Returns the subject of the completion before the cursor, and the part that is written.
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
    /// Returns the source of the choices, or `None` if they are fixed.
    pub(crate) fn source(self) -> Option<Source> {
        match self {
            What::Command | What::Level => None,
            What::Argument(source) => Some(source),
            What::File => Some(Source::Files),
        }
    }
}

impl Popup {
    /// Matches the known choices and the app's own commands against the written part.
    pub(crate) fn new(what: What, written: String, known: &Known, own: &[Choice]) -> Self {
        let listed = what.source().and_then(|source| known.get(&source));
        let matches = match what {
            What::Command => commands(&written, own),
            What::Level => levels(&written),
            What::Argument(Source::Models) => models(listed, &written),
            What::Argument(_) | What::File => {
                listed.map(|all| matching(all, &written)).unwrap_or_default()
            }
        };
        let is_loading = what.source().is_some() && listed.is_none();
        Popup { what, written, matches, chosen: 0, is_loading }
    }

    /// Returns whether it is shown: with choices, or with the reason why it has none.
    pub(crate) fn is_visible(&self) -> bool {
        !self.matches.is_empty() || self.is_loading || self.what == What::File
    }

    /// Returns the selected choice.
    pub(crate) fn choice(&self) -> Option<&Choice> {
        self.matches.get(self.chosen)
    }

    /// Selects the previous choice, or the last one.
    pub(crate) fn up(&mut self) {
        self.chosen = self.chosen.checked_sub(1).unwrap_or(self.matches.len().saturating_sub(1));
    }

    /// Selects the next choice, or the first one.
    pub(crate) fn down(&mut self) {
        self.chosen = if self.chosen + 1 < self.matches.len() { self.chosen + 1 } else { 0 };
    }
}

/// Returns the known models, and the written one if it may be a model that is not listed.
fn models(known: Option<&Vec<Choice>>, written: &str) -> Vec<Choice> {
    let mut matches = known.map(|all| matching(all, written)).unwrap_or_default();
    if written.contains('/') && matches.first().is_none_or(|first| first.value != written) {
        matches.insert(0, Choice::new(written, "as written"));
    }
    matches
}

fn commands(written: &str, own: &[Choice]) -> Vec<Choice> {
    let built_in = FrontEnd::Terminal.commands();
    let built_in = built_in.map(|command| Choice::new(command.name, command.help));
    built_in.chain(own.iter().cloned()).filter(|choice| choice.value.starts_with(written)).collect()
}

fn levels(written: &str) -> Vec<Choice> {
    let names = ThinkingLevel::ALL.map(ThinkingLevel::name).into_iter();
    names.filter(|name| name.starts_with(written)).map(|name| Choice::new(name, "")).collect()
}

/// Returns the choices that contain the written part, best match first.
fn matching(all: &[Choice], written: &str) -> Vec<Choice> {
    let written = written.to_lowercase();
    let mut matches: Vec<(u32, &Choice)> =
        all.iter().filter_map(|choice| Some((score(choice, &written)?, choice))).collect();
    matches.sort_by_key(|(score, _)| *score); // stable: equal scores keep their order
    matches.into_iter().take(MAX_CHOICES).map(|(_, choice)| choice.clone()).collect()
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
