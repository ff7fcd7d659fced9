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
use serde::de::DeserializeOwned;

use self::file::Owner;
pub(crate) use self::keys::{Key, Kind};
pub(crate) use self::layer::{Layer, Origin};
use crate::args::{ClusterArgs, JwtArgs, RuleOptions, RunBudget, ServeArgs, StoreArgs};
use crate::environment::Names;
use crate::error::StartError;
use crate::options::{BudgetOptions, Options, WorkspaceOptions, custom_over};
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
    pub(crate) fn project(&self, directory: &WorkspaceOptions) -> Result<Layer, StartError> {
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

    /// Resolves the options of a session. `given` comes from the command line and the session.
    pub(crate) fn resolve(&self, given: Options) -> Result<Settings, StartError> {
        let project = self.project(&given.workspace)?.options()?;
        let active = given
            .clone()
            .over(self.environment.options()?)
            .over(project)
            .over(self.user.options()?);
        Ok(Settings { active, given, name: None })
    }

    /// Resolves the options of a session that was started with `stored`. `given` comes from the
    /// command line.
    ///
    /// The session's model was stored with its address. Without an address it is the provider's
    /// own, and no other layer sets it.
    pub(crate) fn resolve_stored(
        &self,
        given: Options,
        stored: Options,
    ) -> Result<Settings, StartError> {
        let model = stored.model.clone();
        let own = given.over(stored);
        let is_pinned = model.is_some() && own.model == model;
        let address = own.base_url.clone();
        let mut settings = self.resolve(own)?;
        if is_pinned {
            settings.active.base_url = address;
        }
        Ok(settings)
    }

    /// Resolves the directory that tools work in. A project's file cannot set it.
    pub(crate) fn workspace(
        &self,
        given: &WorkspaceOptions,
    ) -> Result<WorkspaceOptions, StartError> {
        Ok(given.clone().over(self.users_options()?.workspace))
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
        let own = self.users_options()?;
        let (model, base_url) = match given.model {
            None => (own.model, own.base_url),
            model => (model, given.base_url),
        };
        Ok(ServeArgs {
            addr: given.addr.or_else(|| self.users_value("serve.addr")),
            root: self.users_list(given.root, "serve.root"),
            token: given.token,
            user: self.users_list(given.user, "serve.user"),
            jwt: JwtArgs {
                jwt_issuer: given.jwt.jwt_issuer.or_else(|| self.users_value("serve.jwt_issuer")),
                jwt_audience: given
                    .jwt
                    .jwt_audience
                    .or_else(|| self.users_value("serve.jwt_audience")),
                jwt_keys: given.jwt.jwt_keys.or_else(|| self.users_value("serve.jwt_keys")),
                jwt_roles: given.jwt.jwt_roles.or_else(|| self.users_value("serve.jwt_roles")),
            },
            cluster: self.cluster(given.cluster),
            host: self.users_list(given.host, "serve.host"),
            origin: self.users_list(given.origin, "serve.origin"),
            max_runs: given.max_runs.or_else(|| self.users_value("serve.max_runs")),
            max_connections: given
                .max_connections
                .or_else(|| self.users_value("serve.max_connections")),
            max_open_sessions: given
                .max_open_sessions
                .or_else(|| self.users_value("serve.max_open_sessions")),
            max_body: given.max_body.or_else(|| self.users_value("serve.max_body")),
            rules: self.rules(given.rules),
            webhook: given.webhook.or_else(|| self.users_value("serve.webhook")),
            max_daily_tokens: given
                .max_daily_tokens
                .or_else(|| self.users_value("serve.max_daily_tokens")),
            max_daily_cost: given
                .max_daily_cost
                .or_else(|| self.users_value("serve.max_daily_cost")),
            run_budget: given.run_budget.over(RunBudget {
                max_turns: self.users_value("serve.max_turns"),
                max_tokens: self.users_value("serve.max_tokens"),
                max_cost: self.users_value("serve.max_cost"),
                max_time: self.users_value("serve.max_time"),
            }),
            grace: given.grace.or_else(|| self.users_value("serve.grace")),
            log_format: given.log_format.or_else(|| self.users_value("serve.log_format")),
            model,
            base_url,
            models: self.models(given.models.as_ref()),
            no_agents_md: given.no_agents_md.or(own.no_agents_md),
            no_questions: given.no_questions.or(own.no_questions),
            memory: given.memory.or(own.memory),
            distil_at_end: given.distil_at_end.or(own.distil_at_end),
            retries: given.retries.over(own.retries),
            store: StoreArgs { path: self.store(&given.store) },
            unprotected: self.users_list(given.unprotected, "unprotected"),
            commands: given.commands.over(own.workspace.commands),
            custom: custom_over(given.custom, own.custom),
        })
    }

    /// Resolves the settings about other servers.
    fn cluster(&self, given: ClusterArgs) -> ClusterArgs {
        let value = |key| self.users_value(key);
        ClusterArgs {
            placement: given.placement.or_else(|| self.users_value("serve.placement")),
            reachable_at: given.reachable_at.or_else(|| value("serve.reachable_at")),
            restate_admin: given.restate_admin.or_else(|| value("serve.restate_admin")),
            restate_listen: given
                .restate_listen
                .or_else(|| self.users_value("serve.restate_listen")),
            restate_calls: given.restate_calls.or_else(|| value("serve.restate_calls")),
        }
    }

    /// Resolves the rules for clients of `serve`.
    fn rules(&self, given: RuleOptions) -> RuleOptions {
        RuleOptions {
            allow_model: self.users_list(given.allow_model, "serve.allow_model"),
            allow_address: self.users_list(given.allow_address, "serve.allow_address"),
            allow_approve: self.users_list(given.allow_approve, "serve.allow_approve"),
            trusted_proxy: self.users_list(given.trusted_proxy, "serve.trusted_proxy"),
            budget: given.budget.over(BudgetOptions {
                max_session_turns: self.users_value("serve.max_session_turns"),
                max_session_tokens: self.users_value("serve.max_session_tokens"),
                max_session_cost: self.users_value("serve.max_session_cost"),
            }),
        }
    }

    /// Returns the options that the user has set, in the environment and in the user's file.
    fn users_options(&self) -> Result<Options, StartError> {
        Ok(self.environment.options()?.over(self.user.options()?))
    }

    fn users_value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.environment.value(key).or_else(|| self.user.value(key))
    }

    fn users_list<T: DeserializeOwned>(&self, given: Vec<T>, key: &str) -> Vec<T> {
        if given.is_empty() { self.users_value(key).unwrap_or_default() } else { given }
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
        let known: Vec<&str> =
            keys::KEYS.iter().filter_map(|key| key.name.strip_prefix("serve.")).collect();
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
            assert_eq!(args.no_agents_md, Some(expected), "{flag:?}");
        }
    }
}
