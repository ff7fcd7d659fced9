//! [`OwnerNote`]: notes of a session's owner about itself, in the log.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A note of a session's owner about itself, in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OwnerNote {
    /// The owner takes an input from the mailbox while no run is in progress.
    TakesMail,
    /// The owner's end is no loss: it leaves in order, is about to, or has lived long enough.
    Left,
    /// The owner holds the session's work until a person decides.
    Held(Held),
    /// A person had the work continued.
    Resumed,
}

/// The reason why a session waits for a person: its owners were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Held {
    /// Number of lost owners, each lost before any progress of the work.
    pub owners: u32,
    /// Number of inputs in the mailbox, which are not taken before a person has decided.
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
