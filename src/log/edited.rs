//! [`Edited`], the change that a person made to the arguments of a call before it ran.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::excerpt;
use crate::message::Content;

/// The length of the changed arguments in the result, which is for a model.
const MAX_SHOWN_CHARS: usize = 4_000;

/// The words of the note between the person and the changed arguments.
const NOTE: &str = " changed arguments of this call before it ran: ";

/// The arguments that a decision changed, and by whom.
#[derive(Serialize, Deserialize)]
pub(crate) struct Edited {
    changed: Value,
    by: Option<Arc<str>>,
}

impl Edited {
    /// Compares the arguments that were shown with the decision's. Returns `None` if they
    /// are the same.
    pub(super) fn between(shown: &Value, edited: &Value, by: Option<&Arc<str>>) -> Option<Self> {
        if shown == edited {
            return None;
        }
        let changed = match (shown, edited) {
            (Value::Object(shown), Value::Object(edited)) => {
                let removed = shown.keys().filter(|key| !edited.contains_key(*key));
                let removed = removed.map(|key| (key.clone(), Value::Null));
                let changed = edited.iter().filter(|(key, value)| shown.get(*key) != Some(*value));
                let changed = changed.map(|(key, value)| (key.clone(), value.clone()));
                Value::Object(changed.chain(removed).collect())
            }
            _ => edited.clone(),
        };
        Some(Edited { changed, by: by.cloned() })
    }

    /// Adds to a result what was changed, as its last line. `null` stands for a removed argument.
    pub(crate) fn note(&self, result: &mut Vec<Content>) {
        let who = self.by.as_deref().unwrap_or("The user");
        let changed = self.changed.to_string();
        let changed = excerpt::chars(&changed, MAX_SHOWN_CHARS);
        let note = format!("{who}{NOTE}{changed}");
        match result.last_mut() {
            Some(Content::Text { text }) => *text = format!("{text}\n{note}"),
            _ => result.push(Content::text(note)),
        }
    }

    /// Removes the note from a result, which leaves what the tool has returned.
    #[cfg(feature = "testing")]
    pub(crate) fn remove_note(result: &mut Vec<Content>) {
        let Some(Content::Text { text }) = result.last_mut() else { return };
        match text.rsplit_once('\n') {
            Some((output, note)) if note.contains(NOTE) => *text = output.to_owned(),
            None if text.contains(NOTE) => drop(result.pop()),
            _ => {}
        }
    }
}
