//! What the owner of a session notes in its log about itself.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Represents a note of the owner of a session about itself, in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OwnerNote {
    /// It takes an input from the mailbox while no run is in progress.
    TakesMail,
    /// It leaves in order, is about to, or has lived for long enough: its end is no loss.
    Left,
    /// It holds the work of the session for a person.
    Held(Held),
    /// A person has had the work continued.
    Resumed,
}

/// Says why a session does nothing by itself: its owners were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Held {
    /// How many owners were lost, each before the work had come further.
    pub owners: u32,
    /// How many inputs wait in the mailbox, and are not taken before a person has decided.
    #[serde(default)]
    pub unread: u64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { owners, unread } = self;
        write!(
            f,
            "{owners} processes ended while they worked on this session, each before it had come \
             further: find out why, then continue it or abort it"
        )?;
        match unread {
            0 => Ok(()),
            1 => f.write_str("; 1 input waits"),
            _ => write!(f, "; {unread} inputs wait"),
        }
    }
}
