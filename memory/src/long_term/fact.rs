//! [`Fact`] and [`Scope`]: remembered sentences, and their subjects.

use std::fmt;

use loopwright_core::Principal;
use loopwright_core::message::MessageId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::{LongTermError, MAX_FACT_BYTES};

/// The subject of a fact: a user, an agent or a project. Each fact has one scope, and is found only
/// in that scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// A person, or another [`Principal`].
    User(String),
    /// An agent. Its facts come from its work for all users.
    Agent(String),
    /// A project. Its facts hold for everyone who works on it.
    Project(String),
}

impl Scope {
    /// Returns the scope of a user.
    pub fn user(name: impl Into<String>) -> Self {
        Scope::User(name.into())
    }

    /// Returns the scope of an agent.
    pub fn agent(name: impl Into<String>) -> Self {
        Scope::Agent(name.into())
    }

    /// Returns the scope of a project.
    pub fn project(name: impl Into<String>) -> Self {
        Scope::Project(name.into())
    }

    /// Returns the scope of a principal, or `None` if the principal is missing or has no name.
    pub(super) fn of(principal: Option<&Principal>) -> Option<Self> {
        principal.map(Principal::as_str).filter(|name| !name.is_empty()).map(Scope::user)
    }

    /// Returns the kind as stored in the file, and the name.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Scope::User(name) => ("user", name),
            Scope::Agent(name) => ("agent", name),
            Scope::Project(name) => ("project", name),
        }
    }

    /// Checks that the scope has a name. Otherwise, everyone without a name would share facts.
    pub(super) fn check(&self) -> Result<(), LongTermError> {
        if self.parts().1.is_empty() { Err(LongTermError::Unnamed) } else { Ok(()) }
    }
}

impl From<&Principal> for Scope {
    fn from(principal: &Principal) -> Self {
        Scope::user(principal.as_str())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = self.parts();
        write!(f, "{kind} {name}")
    }
}

/// The number of a scope in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScopeId(pub(super) i64);

/// A stored fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fact {
    /// Its number in the file, which is never reused.
    pub id: u64,
    /// The subject of the fact.
    pub scope: Scope,
    /// The text as first stored.
    pub text: String,
    /// The time when it was first stored, in milliseconds since 1970.
    pub created: u64,
    /// The time when it was last stored, in milliseconds since 1970.
    pub refreshed: u64,
    /// The session that first stored it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The message of that session that the fact comes from, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
}

/// A fact to store. A string converts into one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NewFact {
    /// The text: one sentence that can be understood alone.
    pub text: String,
    /// The session that the fact comes from, if known.
    pub session: Option<String>,
    /// The message of that session that the fact comes from, if known.
    pub message: Option<MessageId>,
}

impl<T: Into<String>> From<T> for NewFact {
    fn from(text: T) -> Self {
        NewFact { text: text.into(), ..Self::default() }
    }
}

impl NewFact {
    /// Sets the session that the fact comes from.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Sets the message of the session that the fact comes from.
    pub fn message(mut self, message: MessageId) -> Self {
        self.message = Some(message);
        self
    }

    /// Checks that the text is neither empty nor too long.
    pub(super) fn check(&self) -> Result<(), LongTermError> {
        if self.text.len() > MAX_FACT_BYTES {
            return Err(LongTermError::TooLong { bytes: self.text.len() });
        }
        if !self.text.contains(char::is_alphanumeric) {
            return Err(LongTermError::Empty);
        }
        Ok(())
    }

    /// Returns a digest that ignores differences in case and white space.
    pub(super) fn digest(&self) -> Vec<u8> {
        let words: Vec<String> = self.text.split_whitespace().map(str::to_lowercase).collect();
        Sha256::digest(words.join(" ")).to_vec()
    }
}
