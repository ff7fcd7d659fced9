//! The options of one session, resolved from all layers of settings.

use std::path::{Path, PathBuf};

use loopwright_server::SessionSettings;

use crate::options::{CommandOptions, Options, WorkspaceOptions};

/// The options of one session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The options in force, from all layers.
    pub(crate) active: Options,
    /// The options from the command line and the session itself. A session stores only these,
    /// without the ones from `loopwright.toml` and the environment.
    pub(crate) given: Options,
    /// The session's display name, which a client of a server may have given.
    pub(crate) name: Option<String>,
}

impl Settings {
    /// Changes an option, both in force and as stored by the session.
    pub(crate) fn change(&mut self, change: impl Fn(&mut Options)) {
        change(&mut self.active);
        change(&mut self.given);
    }

    /// Returns the settings that a session of this agent stores, with this model and directory.
    ///
    /// Paths are absolute and addresses contain no credentials. Of the options that were not
    /// given, only the model and its address are included.
    pub(crate) fn to_store(
        &self,
        agent: &str,
        model: &str,
        base_url: Option<String>,
        root: &Path,
    ) -> SessionSettings {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let all = |paths: &[PathBuf]| paths.iter().map(absolute).collect();
        let given = &self.given;
        let commands = &given.workspace.commands;
        let commands = CommandOptions {
            readable: all(&commands.readable),
            writable: all(&commands.writable),
            ..commands.clone()
        };
        let options = Options {
            agent: Some(agent.to_owned()),
            model: Some(model.to_owned()),
            base_url,
            models: given.models.as_ref().map(absolute),
            workspace: WorkspaceOptions {
                root: Some(root.to_owned()),
                commands,
                ..given.workspace.clone()
            },
            ..given.clone()
        };
        let mut settings = options.to_session().without_credentials();
        settings.name.clone_from(&self.name);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Approve;

    #[test]
    fn given_options_take_precedence_over_stored_ones() {
        let options = Options {
            model: Some("custom/a".into()),
            base_url: Some("http://user:key@host:1/v1?api-key=secret&version=2".into()),
            approve: vec![Approve::ReadOnly, Approve::Tool("diff".into())],
            max_turns: Some(3),
            ..Options::default()
        };
        let address = options.base_url.clone();
        let settings = Settings { active: options.clone(), given: options, name: None };
        let stored = settings.to_store("coding", "custom/a", address, Path::new("/somewhere"));
        let json = serde_json::to_value(&stored).unwrap();
        assert!(!json.to_string().contains("key"), "{json}");
        let read = Options::of_session(&SessionSettings::from_stored(Some(&json))).unwrap();
        assert_eq!(
            (&read.base_url, &read.approve),
            (&Some("http://host:1/v1?version=2".into()), &settings.given.approve)
        );
        let given = Options { max_turns: Some(7), ..Options::default() }.over(read.clone());
        assert_eq!((given.max_turns, &given.base_url), (Some(7), &read.base_url));
        let other = Options { model: Some("openai/b".into()), ..Options::default() }.over(read);
        assert_eq!(
            (other.base_url, other.workspace.root.as_deref()),
            (None, Some(Path::new("/somewhere")))
        );
    }
}
