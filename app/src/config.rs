//! `loopwright.toml` and environment variables: the settings that apply where no flag is given.
//!
//! From weakest to strongest: built in, the user's file, the project's file, the environment, the
//! session, flags.

mod file;
pub(crate) mod keys;
mod layer;
mod variables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use loopwright_core::SessionStore;
use loopwright_host::SessionSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::file::Owner;
pub(crate) use self::keys::{Key, Kind};
pub(crate) use self::layer::{Layer, Origin};
use crate::args::{ServeArgs, StoreArgs};
use crate::environment::Names;
use crate::error::StartError;
use crate::options::{FILES, Flags, Options, SERVER, SESSION};
use crate::output;
use crate::program::Program;
use crate::settings::Settings;
use crate::telemetry::AppTelemetry;

/// Maximum size of a project's file.
const MAX_FILE_BYTES: usize = 1 << 20;

/// The settings of the environment and the user's file, and the reader of projects' files.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The definition of the app.
    pub(crate) program: Arc<Program>,
    pub(crate) environment: Layer,
    pub(crate) user: Layer,
    /// The path of the user's file, whether or not it exists; `None` if files are not read.
    pub(crate) file: Option<PathBuf>,
    /// `true` if projects' files are read.
    reads_projects: bool,
    pub(crate) telemetry: AppTelemetry,
}

impl Config {
    /// Returns the settings of `loopwright` itself, without files and variables.
    #[cfg(test)]
    pub(crate) fn loopwright() -> Arc<Self> {
        use crate::program::{CODING, Kind};

        Config::of_agents(vec![(CODING.into(), Kind::Coding)])
    }

    /// Returns the settings of an app with these agents, without files and variables.
    #[cfg(test)]
    pub(crate) fn of_agents(agents: Vec<(Arc<str>, crate::program::Kind)>) -> Arc<Self> {
        let program = Arc::new(Program { agents, ..Program::default() });
        Arc::new(Config { program, ..Config::default() })
    }

    /// Reads the environment and, unless `no_files`, the user's file. Warns about misspelt
    /// variables on standard error.
    ///
    /// # Errors
    ///
    /// Fails if a setting is invalid, or if the file that `LOOPWRIGHT_CONFIG` names is missing.
    pub(crate) fn load(program: Arc<Program>, no_files: bool) -> Result<Self, StartError> {
        let names = &program.names;
        let named = env::var_os(names.config_variable());
        let reads_files = !no_files && named.as_ref().is_none_or(|path| !path.is_empty());
        let file = named.as_ref().map(PathBuf::from).or_else(|| default_file(names));
        let file = file.filter(|_| reads_files);
        let user = match &file {
            Some(path) if named.is_some() || path.exists() => {
                let text = fs::read_to_string(path).map_err(|why| {
                    StartError(format!("The settings in {} cannot be read: {why}.", path.display()))
                })?;
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                file::read(&text, &path, Owner::User, &program)?
            }
            _ => Layer::default(),
        };
        for warning in variables::misspelt_warnings(&program) {
            output::notice(&warning);
        }
        let environment = variables::read(&program)?;
        let telemetry = AppTelemetry::default();
        Ok(Config { program, environment, user, file, reads_projects: reads_files, telemetry })
    }

    /// Reads the settings of the project in this directory, if it has a file.
    pub(crate) fn project(&self, directory: &SessionSettings) -> Result<Layer, StartError> {
        if !self.reads_projects {
            return Ok(Layer::default());
        }
        let workspace = directory.workspace()?;
        let name = self.program.names.settings_file();
        let path = workspace.root().join(&name);
        if self.file.as_ref().is_some_and(|own| is_same_file(own, &path)) {
            return Ok(Layer::default()); // it was read as the user's own
        }
        let read = workspace.read_start(&name, MAX_FILE_BYTES).map_err(|why| {
            StartError(format!("{why}. `--no-config` starts without {}.", path.display()))
        })?;
        match read {
            None => Ok(Layer::default()),
            Some((_, bytes)) if bytes > MAX_FILE_BYTES as u64 => Err(StartError(format!(
                "{} has {bytes} bytes; settings may have {MAX_FILE_BYTES} at most. `--no-config` \
                 starts without it.",
                path.display()
            ))),
            Some((text, _)) => {
                let owner = Owner::Project { users_file: self.file.as_deref() };
                file::read(&text, &path, owner, &self.program)
            }
        }
    }

    /// Resolves the settings of a session. `given` comes from the command line and the session.
    pub(crate) fn resolve(&self, given: Options) -> Result<Settings, StartError> {
        let Options { settings: Flags(given), mcp } = given;
        let project = self.project(&given)?.settings(SESSION)?;
        let active = given
            .clone()
            .over(self.environment.settings(SESSION)?)
            .over(project)
            .over(self.user.settings(SESSION)?);
        Ok(Settings { active, given, mcp })
    }

    /// Resolves the settings of a session that was started with `stored`. `given` comes from the
    /// command line.
    ///
    /// The session's model was stored with its address. Without an address it is the provider's
    /// own, and no other layer sets it.
    pub(crate) fn resolve_stored(
        &self,
        given: Options,
        stored: SessionSettings,
    ) -> Result<Settings, StartError> {
        let model = stored.model.clone();
        let own = given.settings.0.over(stored);
        let is_pinned = model.is_some() && own.model == model;
        let address = own.base_url.clone();
        let mut settings = self.resolve(Options { settings: Flags(own), mcp: given.mcp })?;
        if is_pinned {
            settings.active.base_url = address;
        }
        Ok(settings)
    }

    /// Resolves the settings of tools without an agent. A project's file cannot set them.
    pub(crate) fn files(&self, given: &Flags<FILES>) -> Result<SessionSettings, StartError> {
        Ok(given.0.clone().over(self.users_settings(FILES)?))
    }

    /// Returns the path of the session store, or `None` if it is not set.
    pub(crate) fn store(&self, given: &StoreArgs) -> Option<PathBuf> {
        given.path.clone().or_else(|| self.users_value("store"))
    }

    /// Opens the session store.
    pub(crate) fn open_store(
        &self,
        given: &StoreArgs,
    ) -> Result<Arc<dyn SessionStore>, StartError> {
        self.program.open_store(self.store(given))
    }

    /// Returns the path of the list of models, or `None` if it is not set.
    pub(crate) fn models(&self, given: Option<&PathBuf>) -> Option<PathBuf> {
        given.cloned().or_else(|| self.users_value("models"))
    }

    /// Resolves the arguments of `serve`.
    pub(crate) fn serve(&self, given: ServeArgs) -> Result<ServeArgs, StartError> {
        let failed = |why| StartError(format!("The settings cannot be read: {why}."));
        let mut all = self.user.table("serve.");
        all.extend(self.environment.table("serve."));
        if let Value::Object(flags) = serde_json::to_value(&given).map_err(failed)? {
            let is_set = |value: &Value| !value.is_null() && *value != Value::Array(Vec::new());
            all.extend(flags.into_iter().filter(|(_, value)| is_set(value)));
        }
        Ok(ServeArgs {
            store: StoreArgs { path: self.store(&given.store) },
            defaults: Flags(given.defaults.0.over(self.users_settings(SERVER)?)),
            ..ServeArgs::deserialize(Value::Object(all)).map_err(failed)?
        })
    }

    /// Returns the settings `of` that the user has set, in the environment and in the user's file.
    fn users_settings(&self, of: u8) -> Result<SessionSettings, StartError> {
        Ok(self.environment.settings(of)?.over(self.user.settings(of)?))
    }

    fn users_value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.environment.value(key).or_else(|| self.user.value(key))
    }
}

fn default_file(names: &Names) -> Option<PathBuf> {
    Some(names.config_directory()?.join(names.settings_file()))
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command, LogFormat};

    fn serve(config: &Config, flags: &[&str]) -> ServeArgs {
        let line = ["loopwright", "serve"].iter().chain(flags);
        let Some(Command::Serve(args)) = Cli::try_parse_from(line).unwrap().command else {
            panic!()
        };
        config.serve(*args).unwrap()
    }

    /// C254: the limits, the log and the end of a server are settings too, which its flags
    /// override.
    #[test]
    fn the_limits_of_a_server_are_settings() {
        let path = Path::new("/p/loopwright.toml");
        let text = "[serve]\nmax_turns = 5\nmax_tokens = 6\nmax_cost = 0.5\nmax_time = 7\n\
                    max_connections = 8\ngrace = 9\nlog_format = \"json\"";
        let user = file::read(text, path, Owner::User, &Program::default()).unwrap();
        let config = Config { user, ..Config::default() };
        let args = serve(&config, &[]);
        let budget = args.run_budget.budget();
        assert_eq!((budget.turns, budget.tokens, budget.cost), (Some(5), Some(6), Some(0.5)));
        assert_eq!(budget.time, Some(Duration::from_secs(7)));
        assert_eq!((args.max_connections, args.grace), (Some(8), Some(9)));
        assert_eq!(args.log_format, Some(LogFormat::Json));
        let args = serve(&config, &["--max-turns", "50", "--log-format", "text", "--grace", "0"]);
        let budget = args.run_budget.budget();
        assert_eq!((budget.turns, budget.tokens), (Some(50), Some(6)));
        assert_eq!((args.grace, args.log_format), (Some(0), Some(LogFormat::Text)));
    }

    /// C296: each setting of a server in the user's file acts like its flag.
    #[test]
    fn each_setting_of_a_server_is_what_its_flag_is() {
        let user = format!("ann:{}:admin,treasurer", "0".repeat(64));
        let settings: &[(&str, &str)] = &[
            ("addr", "127.0.0.1:7"),
            ("root", "/r"),
            ("host", "agents.example.org"),
            ("origin", "https://app.example.org"),
            ("user", &user),
            ("jwt_issuer", "https://id.example.org"),
            ("jwt_audience", "agents"),
            ("jwt_keys", "https://id.example.org/keys"),
            ("jwt_roles", "realm.roles"),
            ("placement", "restate=http://restate:8080"),
            ("reachable_at", "http://10.0.0.7:7777"),
            ("restate_admin", "http://restate:9070"),
            ("restate_listen", "10.0.0.7:9080"),
            ("restate_calls", "http://workers:9080"),
            ("webhook", "https://example.org/hook"),
            ("max_runs", "3"),
            ("max_daily_tokens", "5000000000"),
            ("max_daily_cost", "2.5"),
            ("max_connections", "4"),
            ("max_turns", "5"),
            ("max_tokens", "6000000000"),
            ("max_cost", "0.5"),
            ("max_time", "7"),
            ("grace", "8"),
            ("log_format", "json"),
            ("max_open_sessions", "9"),
            ("max_body", "10"),
            ("allow_model", "openai/*"),
            ("allow_address", "10.0.0.0/8"),
            ("allow_approve", "edit_file"),
            ("trusted_proxy", "10.0.0.1"),
            ("max_session_turns", "11"),
            ("max_session_tokens", "12"),
            ("max_session_cost", "13.5"),
        ];
        let known: Vec<String> = keys::built_in_keys()
            .filter_map(|key| Some(key.name.strip_prefix("serve.")?.to_owned()))
            .collect();
        let listed: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, listed);
        let default = format!("{:?}", serve(&Config::default(), &[]));
        for (name, value) in settings {
            let text = match value.parse::<f64>() {
                Ok(_) => format!("[serve]\n{name} = {value}"),
                Err(_) => format!("[serve]\n{name} = \"{value}\""),
            };
            let user = file::read(
                &text,
                Path::new("/p/loopwright.toml"),
                Owner::User,
                &Program::default(),
            )
            .unwrap();
            let from_file = serve(&Config { user, ..Config::default() }, &[]);
            let flag = format!("--{}={value}", name.replace('_', "-"));
            let from_flag = serve(&Config::default(), &[&flag]);
            assert_eq!(format!("{from_file:?}"), format!("{from_flag:?}"), "{name}");
            assert_ne!(format!("{from_file:?}"), default, "{name}");
        }
    }

    #[test]
    fn a_flag_of_serve_overrides_the_file() {
        let path = Path::new("/p/loopwright.toml");
        let user =
            file::read("no_agents_md = true", path, Owner::User, &Program::default()).unwrap();
        let config = Config { user, ..Config::default() };
        for (flag, expected) in
            [(None, true), (Some("--no-agents-md=false"), false), (Some("--no-agents-md"), true)]
        {
            let args = serve(&config, flag.as_slice());
            assert_eq!(args.defaults.no_agents_md, Some(expected), "{flag:?}");
        }
    }
}
