//! The settings of one session, resolved from all layers.

use loopwright_host::SessionSettings;
use std::path::{Path, PathBuf};

use crate::options::McpArg;

/// The settings of one session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The settings in force, from all layers.
    pub(crate) active: SessionSettings,
    /// The settings from the command line and the session itself. A session stores only these,
    /// without the ones from `loopwright.toml` and the environment.
    pub(crate) given: SessionSettings,
    /// The MCP servers of the command line, which are not stored.
    pub(crate) mcp: Vec<McpArg>,
}

impl Settings {
    /// Changes a setting, both in force and as stored by the session.
    pub(crate) fn change(&mut self, change: impl Fn(&mut SessionSettings)) {
        change(&mut self.active);
        change(&mut self.given);
    }

    /// Returns the settings that a session of this agent stores, with this model and directory.
    ///
    /// Paths are absolute and addresses contain no credentials. Of the settings that were not
    /// given, only the model and its address are included.
    pub(crate) fn to_store(
        &self,
        agent: &str,
        model: &str,
        base_url: Option<String>,
        root: &Path,
    ) -> SessionSettings {
        let absolute = |path: &mut PathBuf| {
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute;
            }
        };
        let mut stored = self.given.clone();
        stored.agent = Some(agent.to_owned());
        stored.model = Some(model.to_owned());
        stored.base_url = base_url;
        stored.work_dir = Some(root.display().to_string());
        let paths = stored.readable.iter_mut().chain(&mut stored.writable);
        paths.chain(&mut stored.models).for_each(absolute);
        stored.without_credentials()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_settings_take_precedence_over_stored_ones() {
        let mut settings = SessionSettings::new();
        settings.model = Some("custom/a".into());
        settings.base_url = Some("http://user:key@host:1/v1?api-key=secret&version=2".into());
        settings.approve = Some(vec!["read-only".into(), "diff".into()]);
        settings.max_turns = Some(3);
        settings.name = Some("Sheep".into());
        let address = settings.base_url.clone();
        let settings = Settings { active: settings.clone(), given: settings, mcp: Vec::new() };
        let stored = settings.to_store("coding", "custom/a", address, Path::new("/somewhere"));
        let json = serde_json::to_value(&stored).unwrap();
        assert!(!json.to_string().contains("key"), "{json}");
        let read = SessionSettings::from_stored(Some(&json));
        assert_eq!((&read.approve, &read.name), (&stored.approve, &stored.name));
        assert_eq!(read.base_url.as_deref(), Some("http://host:1/v1?version=2"));
        let mut given = SessionSettings::new();
        given.max_turns = Some(7);
        let given = given.over(read.clone());
        assert_eq!((given.max_turns, &given.base_url), (Some(7), &read.base_url));
        let mut other = SessionSettings::new();
        other.model = Some("openai/b".into());
        let other = other.over(read);
        assert_eq!((other.base_url, other.work_dir.as_deref()), (None, Some("/somewhere")));
    }
}
