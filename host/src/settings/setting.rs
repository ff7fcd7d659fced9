//! [`Setting`]: the declaration of one setting of sessions.

use std::collections::BTreeMap;

use serde_json::Value;

/// The declaration of a setting: a field of [`SessionSettings`](crate::SessionSettings), and its
/// form on command lines, in settings files and in environment variables.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Setting {
    /// The name of the field.
    pub name: &'static str,
    /// The documentation of the field, as it was written: paragraphs of lines, each line with its
    /// leading space.
    pub docs: &'static str,
    /// The type of the values.
    pub kind: SettingType,
    /// The name of the value in help texts, such as `N`.
    pub placeholder: &'static str,
    /// A phrase about the value of sessions without one, such as `50 by default`.
    pub default: Option<&'static str>,
    /// The effect of the setting, as a phrase, if only the user may choose it, and not the author
    /// of a project.
    pub risk: Option<&'static str>,
    /// `true` if clients of a server cannot choose it.
    pub is_host_only: bool,
    /// `true` if clients of a server can change it.
    pub is_changeable: bool,
    /// The agents that have the setting.
    pub scope: SettingScope,
    /// The front ends that have the setting.
    pub place: SettingPlace,
    key: Option<&'static str>,
}

/// The type of the values of a [`Setting`]. The enum is exhaustive, because a front end must know
/// each type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingType {
    /// A text.
    Text,
    /// A boolean.
    Switch,
    /// A whole number from 1 to 2^32-1.
    Count,
    /// A sum of money in US dollars, greater than 0.
    Sum,
    /// One of these words, each with an explanation, which may be empty.
    Words(&'static [(&'static str, &'static str)]),
    /// Names of tools.
    Tools,
    /// A path.
    Path,
    /// Paths.
    Paths,
    /// Protected paths in a session's directory.
    ProtectedPaths,
    /// Values of an app's own settings.
    Custom,
}

/// The agents that have a [`Setting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingScope {
    /// All agents.
    All,
    /// Coding agents.
    Coding,
    /// Coding agents, and their tools without an agent.
    Tools,
}

/// The front ends that have a [`Setting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingPlace {
    /// Command lines, settings files and environment variables.
    Everywhere,
    /// Command lines.
    CommandLine,
    /// Clients of a server.
    Http,
}

impl Setting {
    pub(super) const fn new(kind: SettingType, placeholder: &'static str) -> Self {
        Setting {
            name: "",
            docs: "",
            kind,
            placeholder,
            default: None,
            risk: None,
            is_host_only: false,
            is_changeable: false,
            scope: SettingScope::All,
            place: SettingPlace::Everywhere,
            key: None,
        }
    }

    pub(super) const fn of_field(mut self, name: &'static str, docs: &'static str) -> Self {
        (self.name, self.docs) = (name, docs);
        self
    }

    pub(super) const fn default(mut self, phrase: &'static str) -> Self {
        self.default = Some(phrase);
        self
    }

    pub(super) const fn risk(mut self, risk: &'static str) -> Self {
        self.risk = Some(risk);
        self
    }

    pub(super) const fn host_only(mut self) -> Self {
        self.is_host_only = true;
        self
    }

    pub(super) const fn changeable(mut self) -> Self {
        self.is_changeable = true;
        self
    }

    pub(super) const fn scope(mut self, scope: SettingScope) -> Self {
        self.scope = scope;
        self
    }

    pub(super) const fn place(mut self, place: SettingPlace) -> Self {
        self.place = place;
        self
    }

    /// Sets a key that differs from the field's name.
    pub(super) const fn key_is(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    /// Returns the key in settings files, which is the flag's name with `_` for `-`.
    pub fn key(&self) -> &'static str {
        self.key.unwrap_or(self.name)
    }

    /// Returns the name in JSON.
    pub fn json_name(&self) -> String {
        let mut words = self.name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| {
            let (initial, rest) = word.split_at(word.len().min(1));
            name + &initial.to_uppercase() + rest
        })
    }

    /// Returns whether the value can be a list.
    pub fn is_list(&self) -> bool {
        use SettingType::{Paths, ProtectedPaths, Tools};

        matches!(self.kind, Paths | ProtectedPaths | Tools)
    }
}

/// A value of one of two sets of settings.
pub(super) trait Merge: Sized {
    /// Returns whether the value is left to the other set.
    fn is_unset(&self) -> bool;

    /// Returns this value, or `lower` if it is not set.
    fn over(self, lower: Self) -> Self {
        if self.is_unset() { lower } else { self }
    }
}

impl<T> Merge for Option<T> {
    fn is_unset(&self) -> bool {
        self.is_none()
    }
}

impl<T> Merge for Vec<T> {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

impl Merge for BTreeMap<String, Value> {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn over(self, mut lower: Self) -> Self {
        lower.extend(self);
        lower
    }
}
