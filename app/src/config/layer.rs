//! The settings of one source, each with its origin.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use loopwright_host::SessionSettings;
use loopwright_mcp::ServerConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::keys::{Key, Kind, built_in_keys};
use crate::error::StartError;
use crate::options::has;
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
    /// Returns a session's settings, with their origins from `origin`.
    pub(crate) fn of(
        settings: &SessionSettings,
        program: &Program,
        origin: impl Fn(&Key<'_>) -> Origin,
    ) -> Result<Self, StartError> {
        let all = serde_json::to_value(settings)
            .map_err(|why| StartError(format!("The settings cannot be serialised: {why}.")))?;
        let value = |key: &Key<'_>| match key.kind {
            Kind::Custom(setting) => settings.custom.get(setting.name()).cloned(),
            _ => all.get(key.setting?.json_name()).cloned(),
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

    /// Returns the values of a table by their names, such as those that begin with `serve.`.
    pub(super) fn table(&self, prefix: &str) -> Map<String, Value> {
        let values = self.settings.iter().filter_map(|(name, (value, _))| {
            Some((name.strip_prefix(prefix)?.to_owned(), value.clone()))
        });
        values.collect()
    }

    /// Returns a session's settings: the ones among the settings `of`, and the app's own.
    pub(super) fn settings(&self, of: u8) -> Result<SessionSettings, StartError> {
        let (mut built_in, mut custom) = (Map::new(), BTreeMap::new());
        for (name, (value, _)) in &self.settings {
            match built_in_keys().find(|key| key.name == *name).map(|key| key.setting) {
                Some(Some(setting)) if has(of, setting) => {
                    built_in.insert(setting.json_name(), value.clone());
                }
                Some(_) => {}
                // The names of the app's own settings have `-` where their keys have `_`.
                None => {
                    custom.insert(name.replace('_', "-"), value.clone());
                }
            }
        }
        let mut settings = SessionSettings::deserialize(Value::Object(built_in))
            .map_err(|why| StartError(format!("The settings cannot be read: {why}.")))?;
        settings.custom = custom;
        Ok(settings)
    }
}
