//! `loopwright.toml` and the environment: what is set where no flag says otherwise.
//!
//! From weakest to strongest: built in, the user's file, the project's file, the environment, what
//! a session keeps, flags.

mod file;
mod keys;
mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use self::file::Whose;
pub(crate) use self::keys::{KEYS, Key};
pub(crate) use self::show::config;
use crate::agent::StartError;
use crate::args::{Options, Place, ServeArgs, StoreAt};
use crate::log::LEVEL;
use crate::print;
use crate::serve::TOKEN;

/// The name of a file with settings.
const FILE: &str = "loopwright.toml";
/// The environment variable that names the user's file; no file is read where it is empty.
const VARIABLE: &str = "LOOPWRIGHT_CONFIG";
/// How our variables begin.
const PREFIX: &str = "LOOPWRIGHT_";
/// Bytes of a project's file.
const MOST: usize = 1 << 20;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Flag(String),
    Session(String),
    Variable(String),
    File { path: Arc<Path>, line: usize },
}

/// Settings that come from one place.
#[derive(Debug, Default)]
pub(crate) struct Layer(BTreeMap<&'static str, (Value, Source)>);

impl Layer {
    fn set(&mut self, key: &Key, value: Value, source: Source) {
        self.0.insert(key.name, (value, source));
    }

    fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    fn value<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(&self.0.get(key)?.0).ok()
    }

    /// Those that an agent is made of.
    fn options(&self) -> Result<Options, StartError> {
        let all =
            self.0.iter().map(|(name, (value, _))| ((*name).to_owned(), value.clone())).collect();
        Options::deserialize(Value::Object(all))
            .map_err(|why| StartError(format!("The settings cannot be read: {why}.")))
    }

    /// The settings among the options, which come from `source`.
    fn of(options: &Options, source: impl Fn(&Key) -> Source) -> Result<Self, StartError> {
        let all = serde_json::to_value(options)
            .map_err(|why| StartError(format!("The options cannot be shown: {why}.")))?;
        let given = KEYS
            .iter()
            .filter_map(|key| Some((key.name, (all.get(key.name)?.clone(), source(key)))));
        Ok(Layer(given.collect()))
    }
}

/// What is set apart from flags and from what a session keeps.
#[derive(Debug, Default)]
pub(crate) struct Config {
    environment: Layer,
    user: Layer,
    /// The user's file, whether it is there or not.
    file: Option<PathBuf>,
    /// Whether the project's file is read.
    projects: bool,
}

impl Config {
    /// That of the environment and of the user's file; `no_files` leaves files out.
    pub(crate) fn load(no_files: bool) -> Result<Arc<Self>, StartError> {
        let named = std::env::var_os(VARIABLE);
        let projects = !no_files && named.as_ref().is_none_or(|path| !path.is_empty());
        let file = named.as_ref().map(PathBuf::from).or_else(usual_file).filter(|_| projects);
        let user = match &file {
            Some(path) if named.is_some() || path.exists() => {
                let text = std::fs::read_to_string(path).map_err(|why| {
                    StartError(format!("The settings in {} cannot be read: {why}.", path.display()))
                })?;
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                file::read(&text, &path, Whose::User)?
            }
            _ => Layer::default(),
        };
        misspelt(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
            .iter()
            .for_each(|told| print::show(told));
        Ok(Arc::new(Config { environment: environment()?, user, file, projects }))
    }

    /// The settings of the project in this directory, and its file if it has one.
    fn project(&self, place: &Place) -> Result<Layer, StartError> {
        if !self.projects {
            return Ok(Layer::default());
        }
        let workspace = place.workspace()?;
        let path = workspace.root().join(FILE);
        let same = |own: &PathBuf| matches!((own.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if self.file.as_ref().is_some_and(same) {
            return Ok(Layer::default()); // it is the user's own, and was read
        }
        let read = workspace.read_start(FILE, MOST);
        let read = read.map_err(|why| {
            StartError(format!("{why}. `--no-config` starts without {}.", path.display()))
        })?;
        match read {
            None => Ok(Layer::default()),
            Some((_, bytes)) if bytes > MOST as u64 => Err(StartError(format!(
                "{} has {bytes} bytes, more than settings may have ({MOST}). `--no-config` starts without it.",
                path.display()
            ))),
            Some((text, _)) => {
                file::read(&text, &path, Whose::Project { own: self.file.as_deref() })
            }
        }
    }

    /// The options, with what is set where they say nothing. Those that were given are kept in
    /// mind.
    pub(crate) fn under(&self, given: Options) -> Result<Options, StartError> {
        let project = self.project(&given.place)?.options()?;
        let all = given
            .clone()
            .over(self.environment.options()?)
            .over(project)
            .over(self.user.options()?);
        Ok(Options { given: Some(Box::new(given)), ..all })
    }

    /// The place where tools work, with what is set by the user.
    pub(crate) fn under_place(&self, place: &mut Place) -> Result<(), StartError> {
        let own = self.own()?.place;
        *place = std::mem::take(place).over(own);
        Ok(())
    }

    /// Where sessions are kept, if nothing else was said.
    pub(crate) fn under_store(&self, at: &mut StoreAt) {
        at.store = at.store.take().or_else(|| self.own_value("store"));
    }

    /// The list of models, if no other was named.
    pub(crate) fn under_models(&self, models: &mut Option<PathBuf>) {
        *models = models.take().or_else(|| self.own_value("models"));
    }

    /// The server's settings, where no flag says otherwise; `addr_given` if one says so of the
    /// address.
    pub(crate) fn under_serve(
        &self,
        args: &mut ServeArgs,
        addr_given: bool,
    ) -> Result<(), StartError> {
        let own = self.own()?;
        if args.model.is_none() {
            (args.model, args.base_url) = (own.model, own.base_url);
        }
        args.commands = std::mem::take(&mut args.commands).over(own.place.commands);
        args.no_agents_md = args.no_agents_md.or(own.no_agents_md);
        self.under_models(&mut args.models);
        self.under_store(&mut args.at);
        if let (Some(addr), false) = (self.own_value("serve.addr"), addr_given) {
            args.addr = addr;
        }
        args.max_runs = args.max_runs.or_else(|| self.own_value("serve.max_runs"));
        if args.root.is_empty() {
            args.root = self.own_value("serve.root").unwrap_or_default();
        }
        if args.host.is_empty() {
            args.host = self.own_value("serve.host").unwrap_or_default();
        }
        Ok(())
    }

    /// What the user has set, in the environment and in the file.
    fn own(&self) -> Result<Options, StartError> {
        Ok(self.environment.options()?.over(self.user.options()?))
    }

    fn own_value<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.environment.value(key).or_else(|| self.user.value(key))
    }
}

/// A directory or file that an environment variable names.
pub(crate) fn named_in_environment(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The user's directory for the settings of programs, and in it that for ours.
pub(crate) fn directory() -> Option<PathBuf> {
    let config = named_in_environment("XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(named_in_environment("HOME")?.join(".config")))?;
    Some(config.join("loopwright"))
}

fn usual_file() -> Option<PathBuf> {
    Some(directory()?.join(FILE))
}

/// What is said of variables that are nearly ours. What is less like them is another program's, or
/// another version's.
fn misspelt(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let ours: Vec<String> =
        KEYS.iter().map(Key::variable).chain([VARIABLE, TOKEN, LEVEL].map(str::to_owned)).collect();
    let bare = |name: &str| name.strip_prefix(PREFIX).map(str::to_lowercase);
    let near = |name: &String| {
        let asked = bare(name).filter(|_| !ours.contains(name))?;
        let known: Vec<String> = ours.iter().filter_map(|name| bare(name)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let near = similar::get_close_matches(&*asked, &known, 1, 0.75).first()?.to_uppercase();
        Some(format!(
            "The environment variable {name} is not known and does nothing; did you mean {PREFIX}{near}?"
        ))
    };
    names.into_iter().filter_map(|name| near(&name)).collect()
}

fn environment() -> Result<Layer, StartError> {
    let mut layer = Layer::default();
    for key in KEYS {
        let variable = key.variable();
        let Some(text) = std::env::var_os(&variable).filter(|text| !text.is_empty()) else {
            continue;
        };
        let value = text.to_str().and_then(|text| key.kind.read(&key.kind.of_variable(text), None));
        let Some(value) = value else {
            let (text, allowed) = (text.display(), key.kind.allowed());
            return Err(StartError(format!(
                "The environment variable {variable} is `{text}`; it must be {allowed}."
            )));
        };
        layer.set(key, value, Source::Variable(variable));
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn a_flag_of_serve_says_otherwise_than_the_file() {
        let path = Path::new("/p/loopwright.toml");
        let user = file::read("no_agents_md = true", path, Whose::User).unwrap();
        let config = Config { user, ..Config::default() };
        for (flag, leaves_out) in
            [(None, true), (Some("--no-agents-md=false"), false), (Some("--no-agents-md"), true)]
        {
            let line = ["loopwright", "serve"].into_iter().chain(flag);
            let Some(Command::Serve(mut args)) = Cli::try_parse_from(line).unwrap().command else {
                panic!()
            };
            config.under_serve(&mut args, false).unwrap();
            assert_eq!(args.no_agents_md, Some(leaves_out), "{flag:?}");
        }
    }

    /// Variables of this project's tests, and those of others, are none of its business.
    #[test]
    fn only_what_is_nearly_ours_is_misspelt() {
        let told = misspelt(
            ["LOOPWRIGHT_MODLE", "LOOPWRIGHT_TOKN", "LOOPWRIGHT_SERVE_ADR"].map(str::to_owned),
        );
        for (told, meant) in told.iter().zip(["MODEL", "TOKEN", "SERVE_ADDR"]) {
            assert!(told.ends_with(&format!("did you mean LOOPWRIGHT_{meant}?")), "{told}");
        }
        assert_eq!(told.len(), 3);
        for name in [
            "MODEL",
            "MODELS",
            "TOKEN",
            "LOG",
            "CONFIG",
            "API",
            "CASES",
            "COMMAND",
            "CRASH_ORDERS",
            "FORCED_MODEL",
            "KILLS",
            "LOCAL_MODEL",
            "SEED",
            "SHARED",
            "SPEC_STORE",
            "",
        ] {
            assert_eq!(misspelt([format!("{PREFIX}{name}")]), [""; 0], "{name}");
        }
        assert_eq!(misspelt(["MODLE".to_owned(), "LOOPWRITE_MODEL".to_owned()]), [""; 0]);
    }
}
