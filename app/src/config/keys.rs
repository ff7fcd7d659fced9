//! The settings that a `loopwright.toml` or the environment can contain: their names, their types,
//! and who may set them.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use loopwright_host::{CustomSetting, SessionSettings, Setting, SettingPlace, SettingType};
use serde_json::{Value, json};

use crate::args::{PlacementArg, UserArg};
use crate::environment::Names;
use crate::options::{is_sum, protected_path};
use crate::store_address::database;

/// A setting. Its name is its flag's, with `_` for `-`.
#[derive(Debug, Clone)]
pub(crate) struct Key<'a> {
    /// The name; names of the table `[serve]` begin with `serve.`.
    pub(crate) name: Cow<'a, str>,
    pub(crate) kind: Kind<'a>,
    /// The effect of the setting, as a phrase, if a project's file may not set it.
    pub(crate) risk: Option<&'static str>,
    /// The declaration, if it is a setting of sessions.
    pub(crate) setting: Option<&'static Setting>,
}

/// The type of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// A type that settings of sessions have.
    Plain(SettingType),
    /// A number of tokens, which can be large.
    Tokens,
    Names,
    /// Users of the server.
    Users,
    Address,
    /// The mechanism that assigns sessions to servers.
    Placement,
    /// The type of a setting of the app's own.
    Custom(&'a CustomSetting),
}

/// Returns a setting that only the user's own file, the environment and flags may set.
const fn own(name: &'static str, kind: Kind<'static>, risk: &'static str) -> Key<'static> {
    Key { name: Cow::Borrowed(name), kind, risk: Some(risk), setting: None }
}

const SERVER_RISK: &str = "what the server does";
const TEXT: Kind<'static> = Kind::Plain(SettingType::Text);
const COUNT: Kind<'static> = Kind::Plain(SettingType::Count);
const DOLLARS: Kind<'static> = Kind::Plain(SettingType::Sum);
const LOG_FORMAT: Kind<'static> = Kind::Plain(SettingType::Words(&[("text", ""), ("json", "")]));

/// The settings of this program rather than of sessions.
const OF_PROGRAM: &[Key<'static>] = &[
    own("store", Kind::Plain(SettingType::Path), "where conversations are stored"),
    own("serve.addr", Kind::Address, SERVER_RISK),
    own("serve.root", Kind::Plain(SettingType::Paths), SERVER_RISK),
    own("serve.host", Kind::Names, SERVER_RISK),
    own("serve.origin", Kind::Names, SERVER_RISK),
    own("serve.user", Kind::Users, SERVER_RISK),
    own("serve.jwt_issuer", TEXT, SERVER_RISK),
    own("serve.jwt_audience", TEXT, SERVER_RISK),
    own("serve.jwt_keys", TEXT, SERVER_RISK),
    own("serve.jwt_roles", TEXT, SERVER_RISK),
    own("serve.placement", Kind::Placement, SERVER_RISK),
    own("serve.reachable_at", TEXT, SERVER_RISK),
    own("serve.restate_admin", TEXT, SERVER_RISK),
    own("serve.restate_listen", Kind::Address, SERVER_RISK),
    own("serve.restate_calls", TEXT, SERVER_RISK),
    own("serve.webhook", TEXT, SERVER_RISK),
    own("serve.max_runs", COUNT, SERVER_RISK),
    own("serve.max_daily_tokens", Kind::Tokens, SERVER_RISK),
    own("serve.max_daily_cost", DOLLARS, SERVER_RISK),
    own("serve.max_connections", COUNT, SERVER_RISK),
    own("serve.max_turns", COUNT, SERVER_RISK),
    own("serve.max_tokens", Kind::Tokens, SERVER_RISK),
    own("serve.max_cost", DOLLARS, SERVER_RISK),
    own("serve.max_time", COUNT, SERVER_RISK),
    own("serve.grace", COUNT, SERVER_RISK),
    own("serve.log_format", LOG_FORMAT, SERVER_RISK),
    own("serve.max_open_sessions", COUNT, SERVER_RISK),
    own("serve.max_body", COUNT, SERVER_RISK),
    own("serve.allow_model", Kind::Names, SERVER_RISK),
    own("serve.allow_address", Kind::Names, SERVER_RISK),
    own("serve.allow_approve", Kind::Names, SERVER_RISK),
    own("serve.trusted_proxy", Kind::Names, SERVER_RISK),
    own("serve.max_session_turns", COUNT, SERVER_RISK),
    own("serve.max_session_tokens", COUNT, SERVER_RISK),
    own("serve.max_session_cost", DOLLARS, SERVER_RISK),
];

/// Returns all built-in settings, in the order of `loopwright config`.
pub(crate) fn built_in_keys<'a>() -> impl Iterator<Item = Key<'a>> {
    let of_program: &[Key<'a>] = OF_PROGRAM;
    let of_sessions = SessionSettings::ALL.iter();
    let of_sessions =
        of_sessions.filter(|setting| setting.place == SettingPlace::Everywhere).map(Key::of);
    of_sessions.chain(of_program.iter().cloned())
}

impl<'a> Key<'a> {
    fn of(setting: &'static Setting) -> Self {
        let kind = Kind::Plain(setting.kind);
        let name = setting.key().into();
        Key { name, kind, risk: setting.risk, setting: Some(setting) }
    }

    /// Returns the key of a setting of the app's own.
    pub(crate) fn custom(setting: &'a CustomSetting) -> Self {
        Key {
            name: setting.name().replace('-', "_").into(),
            kind: Kind::Custom(setting),
            risk: Some("what the agents of this app do"),
            setting: None,
        }
    }

    /// Returns the name of its environment variable.
    pub(crate) fn variable(&self, names: &Names) -> String {
        names.variable(&self.name.replace('.', "_").to_uppercase())
    }

    /// Returns its flag.
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.rsplit('.').next().unwrap_or(&self.name).replace('_', "-"))
    }
}

impl Kind<'_> {
    /// Returns a description of the valid values.
    pub(crate) fn allowed(self) -> String {
        let fixed = match self {
            Kind::Custom(setting) => return setting.allowed(),
            Kind::Plain(SettingType::Words(words)) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                return format!("one of: {}", words.join(", "));
            }
            Kind::Plain(SettingType::Count) => {
                return format!("a whole number from 1 to {}", u32::MAX);
            }
            Kind::Tokens => return format!("a whole number from 1 to {}", i64::MAX),
            Kind::Plain(SettingType::Text) => "text in quotes",
            Kind::Plain(SettingType::Switch) => "true or false",
            Kind::Plain(SettingType::Sum) => "a number greater than 0",
            Kind::Plain(SettingType::Tools) => {
                "a list of tools' names, such as [\"edit_file\"], or \"read-only\", or \"all\""
            }
            Kind::Plain(SettingType::Path) => "a path in quotes",
            Kind::Plain(SettingType::Paths) => "a list of paths, such as [\"/opt/tool\"]",
            Kind::Plain(SettingType::ProtectedPaths) => {
                "a list of protected paths, such as [\".vscode\"], or \".\" for all"
            }
            Kind::Plain(SettingType::Custom) => "the settings of the app",
            Kind::Names => "a list of names, such as [\"my.host\"]",
            Kind::Users => {
                "a list of users, such as [\"ann:SHA256:approver\"], where SHA256 is the digest of \
                 the user's token in 64 hexadecimal digits, and roles are separated by commas"
            }
            Kind::Address => "an address and a port, such as \"127.0.0.1:7777\"",
            Kind::Placement => "\"leases\" or \"restate=URL\"",
        };
        fixed.to_owned()
    }

    /// Returns the value in the form of the settings, or `None` if it is invalid. Relative paths
    /// start at `directory`, and `~/` is the user's home directory.
    pub(crate) fn read(self, value: &Value, directory: Option<&Path>) -> Option<Value> {
        let path = |text: &str| Some(json!(absolute(text, directory)));
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        Some(match self {
            Kind::Custom(setting) => setting.read(value)?,
            Kind::Plain(SettingType::Text) => json!(text?),
            Kind::Plain(SettingType::Switch) => json!(value.as_bool()?),
            Kind::Plain(SettingType::Count) => {
                json!(u32::try_from(value.as_u64()?).ok().filter(|count| *count > 0)?)
            }
            // TOML has no larger numbers.
            Kind::Tokens => json!(value.as_u64().filter(|n| (1..=i64::MAX as u64).contains(n))?),
            Kind::Plain(SettingType::Sum) => json!(value.as_f64().filter(|sum| is_sum(*sum))?),
            Kind::Plain(SettingType::Words(words)) => {
                json!(words.iter().map(|(word, _)| *word).find(|word| Some(*word) == text)?)
            }
            Kind::Plain(SettingType::Path) => path(text?)?,
            Kind::Plain(SettingType::Paths) => list(value, path)?,
            Kind::Plain(SettingType::ProtectedPaths) => {
                list(value, |path| Some(json!(protected_path(path).ok()?)))?
            }
            Kind::Plain(SettingType::Tools) | Kind::Names => list(value, |name| Some(json!(name)))?,
            Kind::Plain(SettingType::Custom) => return None,
            Kind::Address => json!(text?.parse::<SocketAddr>().ok()?),
            Kind::Placement => json!(text?.parse::<PlacementArg>().ok()?),
            Kind::Users => list(value, |user| Some(json!(user.parse::<UserArg>().ok()?)))?,
        })
    }

    /// Parses the value of an environment variable. Lists of paths have the syntax of PATH, other
    /// lists are separated by commas, and users by spaces.
    pub(crate) fn of_variable(self, text: &str) -> Value {
        use SettingType::{Count, Paths, ProtectedPaths, Sum, Switch, Tools};

        match self {
            Kind::Plain(Switch) => match text {
                "true" | "1" => json!(true),
                "false" | "0" => json!(false),
                other => json!(other),
            },
            Kind::Plain(Count) | Kind::Tokens => {
                text.parse::<u64>().map_or_else(|_| json!(text), |count| json!(count))
            }
            Kind::Plain(Sum) => text.parse::<f64>().map_or_else(|_| json!(text), |sum| json!(sum)),
            Kind::Custom(setting) => setting.parse(text).unwrap_or_else(|| json!(text)),
            Kind::Plain(Paths) => json!(std::env::split_paths(text).collect::<Vec<_>>()),
            Kind::Users => json!(text.split_whitespace().collect::<Vec<_>>()),
            Kind::Plain(Tools | ProtectedPaths) | Kind::Names => {
                json!(text.split(',').map(str::trim).collect::<Vec<_>>())
            }
            _ => json!(text),
        }
    }
}

/// Converts a list of strings; a single string counts as a list. Returns `None` if an item is
/// invalid.
fn list(value: &Value, each: impl Fn(&str) -> Option<Value>) -> Option<Value> {
    let one = std::slice::from_ref(value);
    let all = value.as_array().map_or(one, Vec::as_slice).iter();
    all.map(|item| each(item.as_str().filter(|text| !text.trim().is_empty())?)).collect()
}

fn absolute(text: &str, directory: Option<&Path>) -> PathBuf {
    if database(Path::new(text)).is_some() {
        return text.into();
    }
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
    match (directory, text.strip_prefix("~/")) {
        (Some(directory), Some(rest)) => {
            home().map_or_else(|| directory.join(text), |home| Path::new(&home).join(rest))
        }
        (Some(directory), None) => directory.join(text),
        (None, _) => text.into(), // the shell has expanded it
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    /// Each setting has a flag, and a row in the guide with the flag's help text.
    #[test]
    fn the_guide_lists_all_settings() {
        let cli = Cli::command();
        let row = |key: Key<'_>| {
            let command = if key.name.starts_with("serve.") { "serve" } else { "run" };
            let mut flags = cli.find_subcommand(command).unwrap().get_arguments();
            let is_its = |flag: &&clap::Arg| {
                flag.get_long().map(|long| format!("--{long}")) == Some(key.flag())
            };
            let flag = flags.find(is_its).unwrap_or_else(|| panic!("{}", key.name));
            let of_clients = key.setting.filter(|setting| !setting.is_host_only);
            let http = of_clients.map(|setting| format!("`{}`", setting.json_name()));
            let help = flag.get_help().unwrap().to_string().replace('|', "\\|");
            format!("| `{}` | {} | {help} |", key.name, http.unwrap_or_default())
        };
        let rows: Vec<String> = built_in_keys().map(row).collect();
        let page = include_str!("../../../docs/guide/src/settings.md");
        let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(listed, rows, "the rows should be:\n{}", rows.join("\n"));
    }

    #[test]
    fn invalid_values_are_rejected() {
        let read =
            |kind: Kind<'_>, value: Value| kind.read(&value, Some(Path::new("/etc/loopwright")));
        assert_eq!(read(COUNT, json!(0)), None);
        assert_eq!(read(COUNT, json!(1_u64 << 40)), None);
        assert_eq!(read(Kind::Tokens, json!(1_u64 << 40)), Some(json!(1_u64 << 40)));
        assert_eq!(
            (read(Kind::Tokens, json!(0)), read(Kind::Tokens, json!(u64::MAX))),
            (None, None)
        );
        assert_eq!(read(TEXT, json!(" ")), None);
        assert_eq!(
            read(Kind::Plain(SettingType::Path), json!("a.toml")),
            Some(json!("/etc/loopwright/a.toml"))
        );
        assert_eq!(read(Kind::Plain(SettingType::Paths), json!(["/a", 1])), None);
        assert_eq!(read(Kind::Plain(SettingType::Paths), json!("/a")), Some(json!(["/a"])));
        assert_eq!(read(Kind::Plain(SettingType::Tools), json!("all")), Some(json!(["all"])));
        assert_eq!(read(Kind::Plain(SettingType::ProtectedPaths), json!([".vscode", "src"])), None);
        for path in [".vscode", ".git", "./.git/hooks/", "."] {
            assert_eq!(
                read(Kind::Plain(SettingType::ProtectedPaths), json!(path)),
                Some(json!([path]))
            );
        }
        assert_eq!(COUNT.read(&COUNT.of_variable("many"), None), None);
        assert_eq!(
            Kind::Plain(SettingType::Switch)
                .read(&Kind::Plain(SettingType::Switch).of_variable("0"), None),
            Some(json!(false))
        );
        let paths = std::env::join_paths(["/a", "b"]).unwrap();
        let paths = Kind::Plain(SettingType::Paths).of_variable(paths.to_str().unwrap());
        assert_eq!(Kind::Plain(SettingType::Paths).read(&paths, None), Some(json!(["/a", "b"])));
    }
}
