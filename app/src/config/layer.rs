//! The settings of one source, each with its origin.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use loopwright_mcp::ServerConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::keys::{KEYS, Key, Kind};
use crate::error::StartError;
use crate::options::Options;
use crate::program::Program;

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(String),
    Session(String),
    Variable(String),
    File { path: Arc<Path>, line: usize },
}

/// The settings of one source.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    settings: BTreeMap<String, (Value, Origin)>,
    /// The MCP servers of a file.
    pub(crate) servers: Vec<ServerConfig>,
}

impl Layer {
    /// Returns the settings among the options, with their origins from `origin`.
    pub(crate) fn of(
        options: &Options,
        program: &Program,
        origin: impl Fn(&Key<'_>) -> Origin,
    ) -> Result<Self, StartError> {
        let all = serde_json::to_value(options)
            .map_err(|why| StartError(format!("The options cannot be serialised: {why}.")))?;
        let value = |key: &Key<'_>| match key.kind {
            Kind::Custom(setting) => options.custom.get(setting.name()).cloned(),
            _ => all.get(&*key.name).cloned(),
        };
        let given = program
            .keys()
            .filter_map(|key| Some((key.name.to_string(), (value(&key)?, origin(&key)))));
        Ok(Layer { settings: given.collect(), servers: Vec::new() })
    }

    /// Adds a setting.
    pub(crate) fn set(&mut self, key: &Key<'_>, value: Value, origin: Origin) {
        self.settings.insert(key.name.to_string(), (value, origin));
    }

    /// Returns the value and the origin of a setting.
    pub(crate) fn get(&self, key: &str) -> Option<&(Value, Origin)> {
        self.settings.get(key)
    }

    /// Returns whether the setting is set.
    pub(super) fn has(&self, key: &str) -> bool {
        self.settings.contains_key(key)
    }

    /// Returns the value of a setting, or `None` if it is not set or has another type.
    pub(super) fn value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(&self.settings.get(key)?.0).ok()
    }

    /// Returns the options among the settings.
    pub(super) fn options(&self) -> Result<Options, StartError> {
        let is_built_in = |name: &str| KEYS.iter().any(|key| key.name == name);
        let all = self.settings.iter().map(|(name, (value, _))| (name.clone(), value.clone()));
        let (built_in, custom): (Vec<_>, Vec<_>) = all.partition(|(name, _)| is_built_in(name));
        let mut options = Options::deserialize(Value::Object(built_in.into_iter().collect()))
            .map_err(|why| StartError(format!("The settings cannot be read: {why}.")))?;
        // The names of the app's own settings have `-` where their keys have `_`.
        let custom = custom.into_iter().map(|(key, value)| (key.replace('_', "-"), value));
        options.custom = custom.collect();
        Ok(options)
    }
}
