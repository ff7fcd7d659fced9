//! The state of the interface, as a pure function of events, keys and the outcomes of effects. No
//! I/O, no clock, no handle.

mod completion;
mod core;
mod dialog;
mod effect;
mod entries;
mod entry;
mod events;
mod keys;
mod outcomes;
mod popup;
mod prompt;
mod run_command;
mod status;
mod submit;
#[cfg(test)]
mod tests;
mod transcript;

pub(crate) use self::core::State;
pub(crate) use self::dialog::{Dialog, Mode};
pub(crate) use self::effect::{Choice, Effect, Opened, Outcome, Scroll, Source, Tone};
pub(crate) use self::entry::{Entry, Kind, Phase, Thought, ToolEntry, user_text};
pub(crate) use self::prompt::Prompt;
pub(crate) use self::status::{Activity, Run};
pub(crate) use self::transcript::Transcript;
