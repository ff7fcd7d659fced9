//! The settings that a `loopwright.toml` or the environment can contain: their names, their types,
//! and who may set them.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use loopwright_core::model::ThinkingLevel;
use loopwright_server::{CODING_LOOPS, CustomSetting};
use serde_json::{Value, json};

use crate::args::{LogFormat, PlacementArg, UserArg};
use crate::environment::Names;
use crate::options::{Approve, is_sum, protected_path};
use crate::store_address::database;

/// A setting. Its name is its flag's, with `_` for `-`.
#[derive(Debug, Clone)]
pub(crate) struct Key<'a> {
    /// The name; names of the table `[serve]` begin with `serve.`.
    pub(crate) name: Cow<'a, str>,
    pub(crate) kind: Kind<'a>,
    /// The effect of the setting, as a phrase, if a project's file may not set it.
    pub(crate) risk: Option<&'static str>,
}

/// The type of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    Text,
    Switch,
    Count,
    /// A number of tokens, which can be large.
    Tokens,
    /// A sum of money.
    Dollars,
    /// One of a fixed set of words.
    Word(fn() -> Vec<String>),
    Approvals,
    Path,
    Paths,
    Names,
    /// Users of the server.
    Users,
    /// Paths in the directory to work in.
    Protected,
    Address,
    /// The mechanism that assigns sessions to servers.
    Placement,
    /// The type of a setting of the app's own.
    Custom(&'a CustomSetting),
}

const fn key(name: &'static str, kind: Kind<'static>) -> Key<'static> {
    Key { name: Cow::Borrowed(name), kind, risk: None }
}

/// Returns a setting that only the user's own file, the environment and flags may set.
const fn own(name: &'static str, kind: Kind<'static>, risk: &'static str) -> Key<'static> {
    Key { name: Cow::Borrowed(name), kind, risk: Some(risk) }
}

const SERVER_RISK: &str = "what the server does";
const BUDGET_RISK: &str = "how much a session may use";
const MODEL_RISK: &str = "which server receives the conversation, and which key";

/// All built-in settings, in the order of `loopwright config`.
pub(crate) const KEYS: &[Key<'static>] = &[
    own("agent", Kind::Text, "which agent works, with which tools"),
    own("model", Kind::Text, MODEL_RISK),
    own("base_url", Kind::Text, MODEL_RISK),
    own("models", Kind::Path, "where models are described"),
    key("system", Kind::Text),
    key("no_agents_md", Kind::Switch),
    key("no_questions", Kind::Switch),
    own("memory", Kind::Switch, "whether facts about you are stored"),
    own("distil_at_end", Kind::Switch, "whether conversations are searched for facts about you"),
    key("thinking", Kind::Word(|| ThinkingLevel::ALL.map(|level| level.to_string()).into())),
    key("pattern", Kind::Word(|| CODING_LOOPS.map(|(name, _)| name.to_owned()).into())),
    key("tool_choice", Kind::Text),
    key("max_turns", Kind::Count),
    own("max_session_turns", Kind::Count, BUDGET_RISK),
    own("max_session_tokens", Kind::Count, BUDGET_RISK),
    own("max_session_cost", Kind::Dollars, BUDGET_RISK),
    own("max_attempts", Kind::Count, "how often failed requests are sent again"),
    own("max_retry_delay", Kind::Count, "how late failed requests are sent again"),
    own("approve", Kind::Approvals, "what runs on your machine without approval"),
    key("guard", Kind::Switch),
    own("network", Kind::Switch, "whether commands reach the network"),
    own("unconfined", Kind::Switch, "whether commands are confined"),
    own("readable", Kind::Paths, "what commands can read"),
    own("writable", Kind::Paths, "what commands can write"),
    own("unprotected", Kind::Protected, "which files that your own tools run can be changed"),
    own("max_memory", Kind::Count, "how much memory commands use"),
    own("max_disk", Kind::Count, "how much disk commands use"),
    own("store", Kind::Path, "where conversations are stored"),
    own("serve.addr", Kind::Address, SERVER_RISK),
    own("serve.root", Kind::Paths, SERVER_RISK),
    own("serve.host", Kind::Names, SERVER_RISK),
    own("serve.origin", Kind::Names, SERVER_RISK),
    own("serve.user", Kind::Users, SERVER_RISK),
    own("serve.jwt_issuer", Kind::Text, SERVER_RISK),
    own("serve.jwt_audience", Kind::Text, SERVER_RISK),
    own("serve.jwt_keys", Kind::Text, SERVER_RISK),
    own("serve.jwt_roles", Kind::Text, SERVER_RISK),
    own("serve.placement", Kind::Placement, SERVER_RISK),
    own("serve.reachable_at", Kind::Text, SERVER_RISK),
    own("serve.restate_admin", Kind::Text, SERVER_RISK),
    own("serve.restate_listen", Kind::Address, SERVER_RISK),
    own("serve.restate_calls", Kind::Text, SERVER_RISK),
    own("serve.webhook", Kind::Text, SERVER_RISK),
    own("serve.max_runs", Kind::Count, SERVER_RISK),
    own("serve.max_daily_tokens", Kind::Tokens, SERVER_RISK),
    own("serve.max_daily_cost", Kind::Dollars, SERVER_RISK),
    own("serve.max_connections", Kind::Count, SERVER_RISK),
    own("serve.max_turns", Kind::Count, SERVER_RISK),
    own("serve.max_tokens", Kind::Tokens, SERVER_RISK),
    own("serve.max_cost", Kind::Dollars, SERVER_RISK),
    own("serve.max_time", Kind::Count, SERVER_RISK),
    own("serve.grace", Kind::Count, SERVER_RISK),
    own("serve.log_format", Kind::Word(words::<LogFormat>), SERVER_RISK),
    own("serve.max_open_sessions", Kind::Count, SERVER_RISK),
    own("serve.max_body", Kind::Count, SERVER_RISK),
    own("serve.allow_model", Kind::Names, SERVER_RISK),
    own("serve.allow_address", Kind::Names, SERVER_RISK),
    own("serve.allow_approve", Kind::Names, SERVER_RISK),
    own("serve.trusted_proxy", Kind::Names, SERVER_RISK),
    own("serve.max_session_turns", Kind::Count, SERVER_RISK),
    own("serve.max_session_tokens", Kind::Count, SERVER_RISK),
    own("serve.max_session_cost", Kind::Dollars, SERVER_RISK),
];

impl<'a> Key<'a> {
    /// Returns the key of a setting of the app's own.
    pub(crate) fn custom(setting: &'a CustomSetting) -> Self {
        Key {
            name: setting.name().replace('-', "_").into(),
            kind: Kind::Custom(setting),
            risk: Some("what the agents of this app do"),
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
        match self {
            Kind::Text => "text in quotes".into(),
            Kind::Switch => "true or false".into(),
            Kind::Count => format!("a whole number from 1 to {}", u32::MAX),
            Kind::Tokens => format!("a whole number from 1 to {}", i64::MAX),
            Kind::Dollars => "a number greater than 0".into(),
            Kind::Word(words) => format!("one of: {}", words().join(", ")),
            Kind::Approvals => {
                "a list of tools' names, such as [\"edit_file\"], or \"read-only\", or \"all\""
                    .into()
            }
            Kind::Path => "a path in quotes".into(),
            Kind::Paths => "a list of paths, such as [\"/opt/tool\"]".into(),
            Kind::Names => "a list of names, such as [\"my.host\"]".into(),
            Kind::Users => {
                "a list of users, such as [\"ann:SHA256:approver\"], where SHA256 is the digest of \
                 the user's token in 64 hexadecimal digits, and roles are separated by commas"
                    .into()
            }
            Kind::Protected => {
                "a list of protected paths, such as [\".vscode\"], or \".\" for all".into()
            }
            Kind::Address => "an address and a port, such as \"127.0.0.1:7777\"".into(),
            Kind::Placement => "\"leases\" or \"restate=URL\"".into(),
            Kind::Custom(setting) => setting.allowed(),
        }
    }

    /// Returns the value in the form of [`Options`](crate::options::Options), or `None` if it is
    /// invalid. Relative paths start at `directory`, and `~/` is the user's home directory.
    pub(crate) fn read(self, value: &Value, directory: Option<&Path>) -> Option<Value> {
        let path = |text: &str| json!(absolute(text, directory));
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        Some(match self {
            Kind::Text => json!(text?),
            Kind::Switch => json!(value.as_bool()?),
            Kind::Count => json!(u32::try_from(value.as_u64()?).ok().filter(|count| *count > 0)?),
            // TOML has no larger numbers.
            Kind::Tokens => json!(value.as_u64().filter(|n| (1..=i64::MAX as u64).contains(n))?),
            Kind::Dollars => json!(value.as_f64().filter(|dollars| is_sum(*dollars))?),
            Kind::Word(words) => {
                json!(words().into_iter().find(|word| Some(word.as_str()) == text)?)
            }
            Kind::Custom(setting) => setting.read(value)?,
            Kind::Path => path(text?),
            Kind::Address => json!(text?.parse::<SocketAddr>().ok()?),
            Kind::Placement => json!(text?.parse::<PlacementArg>().ok()?),
            Kind::Approvals => list(value, |tool| json!(Approve::of(tool)))?,
            Kind::Paths => list(value, path)?,
            Kind::Names => list(value, |name| json!(name))?,
            Kind::Users => {
                let all = list(value, |user| json!(user.parse::<UserArg>().ok()))?;
                Some(all)
                    .filter(|all| all.as_array().is_some_and(|all| !all.contains(&json!(null))))?
            }
            Kind::Protected => {
                let all = list(value, |path| json!(protected_path(path).ok()))?;
                Some(all)
                    .filter(|all| all.as_array().is_some_and(|all| !all.contains(&json!(null))))?
            }
        })
    }

    /// Parses the value of an environment variable. Lists of paths have the syntax of PATH, other
    /// lists are separated by commas, and users by spaces.
    pub(crate) fn of_variable(self, text: &str) -> Value {
        match self {
            Kind::Switch => match text {
                "true" | "1" => json!(true),
                "false" | "0" => json!(false),
                other => json!(other),
            },
            Kind::Count | Kind::Tokens => {
                text.parse::<u64>().map_or_else(|_| json!(text), |count| json!(count))
            }
            Kind::Dollars => text.parse::<f64>().map_or_else(|_| json!(text), |sum| json!(sum)),
            Kind::Custom(setting) => setting.parse(text).unwrap_or_else(|| json!(text)),
            Kind::Paths => json!(std::env::split_paths(text).collect::<Vec<_>>()),
            Kind::Users => json!(text.split_whitespace().collect::<Vec<_>>()),
            Kind::Approvals | Kind::Names | Kind::Protected => {
                json!(text.split(',').map(str::trim).collect::<Vec<_>>())
            }
            _ => json!(text),
        }
    }
}

/// Returns the possible values of a flag.
fn words<T: ValueEnum>() -> Vec<String> {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Converts a list of strings; a single string counts as a list.
fn list(value: &Value, each: impl Fn(&str) -> Value) -> Option<Value> {
    let one = std::slice::from_ref(value);
    let all = value.as_array().map_or(one, Vec::as_slice).iter();
    all.map(|item| item.as_str().filter(|text| !text.trim().is_empty()).map(&each)).collect()
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

    #[test]
    fn every_setting_has_a_flag() {
        let cli = Cli::command();
        for key in KEYS {
            let command = if key.name.starts_with("serve.") { "serve" } else { "run" };
            let command = cli.find_subcommand(command).unwrap();
            assert!(
                command
                    .get_arguments()
                    .any(|arg| arg.get_long().map(|long| format!("--{long}")) == Some(key.flag())),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn invalid_values_are_rejected() {
        let read =
            |kind: Kind<'_>, value: Value| kind.read(&value, Some(Path::new("/etc/loopwright")));
        assert_eq!(read(Kind::Count, json!(0)), None);
        assert_eq!(read(Kind::Count, json!(1_u64 << 40)), None);
        assert_eq!(read(Kind::Tokens, json!(1_u64 << 40)), Some(json!(1_u64 << 40)));
        assert_eq!(
            (read(Kind::Tokens, json!(0)), read(Kind::Tokens, json!(u64::MAX))),
            (None, None)
        );
        assert_eq!(read(Kind::Text, json!(" ")), None);
        assert_eq!(read(Kind::Path, json!("a.toml")), Some(json!("/etc/loopwright/a.toml")));
        assert_eq!(read(Kind::Paths, json!(["/a", 1])), None);
        assert_eq!(read(Kind::Paths, json!("/a")), Some(json!(["/a"])));
        assert_eq!(read(Kind::Approvals, json!("all")), Some(json!(["all"])));
        assert_eq!(read(Kind::Protected, json!([".vscode", "src"])), None);
        for path in [".vscode", ".git", "./.git/hooks/", "."] {
            assert_eq!(read(Kind::Protected, json!(path)), Some(json!([path])));
        }
        assert_eq!(Kind::Count.read(&Kind::Count.of_variable("many"), None), None);
        assert_eq!(Kind::Switch.read(&Kind::Switch.of_variable("0"), None), Some(json!(false)));
        let paths = std::env::join_paths(["/a", "b"]).unwrap();
        let paths = Kind::Paths.of_variable(paths.to_str().unwrap());
        assert_eq!(Kind::Paths.read(&paths, None), Some(json!(["/a", "b"])));
    }
}
