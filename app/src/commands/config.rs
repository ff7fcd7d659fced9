//! `loopwright config`: the settings in force, and where each of them is set.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use loopwright_host::{SessionSettings, Setting, SettingType};
use loopwright_server::ServerBuilder;
use serde_json::{Value, json};

use crate::args::{ConfigArgs, DEFAULT_ADDR, DEFAULT_GRACE};
use crate::config::{Config, Key, Kind, Layer, Origin};
use crate::error::StartError;
use crate::output;
use crate::program::Program;
use crate::session::{default_models_file, existing, stored_settings};
use crate::store_address::database;

/// Maximum width of the column of values; longer values move the next column.
const MAX_VALUE_WIDTH: usize = 60;

/// Shows all settings, and returns the exit code.
pub(crate) async fn config(args: &ConfigArgs, config: &Config) -> Result<u8, StartError> {
    let program = &config.program;
    let mut flags = Layer::of(&args.options.settings, program, |key| Origin::Flag(key.flag()))?;
    let store_key = program.keys().find(|key| key.name == "store");
    if let (Some(path), Some(key)) = (&args.store.path, store_key) {
        flags.set(&key, json!(path), Origin::Flag(key.flag()));
    }
    let stored = match &args.session {
        Some(name) => {
            let store = config.open_store(&args.store)?;
            stored_settings(&existing(&*store, name).await?)?
        }
        None => SessionSettings::new(),
    };
    let name = args.session.clone().unwrap_or_default();
    let session = Layer::of(&stored, program, |_| Origin::Session(name.clone()))?;
    let given = args.options.settings.0.clone().over(stored.clone());
    let project = config.project(&given)?;
    let root = given.workspace()?.root().to_owned();
    let layers = [&flags, &session, &config.environment, &project, &config.user];
    // A setting can disable others: an address applies only to its own model, for example.
    let resolved = config.resolve_stored(args.options.clone(), stored)?;
    let active = Layer::of(&resolved.active, program, |key| Origin::Flag(key.flag()))?;
    let rows: Vec<Row<'_>> =
        program.keys().map(|key| row(key, &layers, &active, program)).collect();
    if args.json {
        return output::after_write(rows.iter().try_for_each(|row| output::json_line(&row.json())));
    }
    let code = output::after_write(print_table(&rows))?;
    let described = |path: &Path| {
        format!("{}{}", path.display(), if path.exists() { "" } else { " (does not exist)" })
    };
    match &config.file {
        Some(file) => output::info(&format!(
            "Your file: {}. The project's: {}.",
            described(file),
            described(&root.join(config.program.names.settings_file()))
        )),
        None => output::info("No file is read."),
    }
    Ok(code)
}

/// A row of the output: a setting.
struct Row<'a> {
    name: Cow<'a, str>,
    value: Value,
    /// The source of the value, or `None` for the default.
    origin: Option<Origin>,
}

fn row<'a>(key: Key<'a>, layers: &[&Layer], active: &Layer, program: &Program) -> Row<'a> {
    let name = &*key.name;
    let set = layers.iter().find_map(|layer| layer.get(name));
    let is_option = name != "store" && !name.starts_with("serve.");
    let value = if is_option { active.get(name) } else { set }.map(|(value, _)| value.clone());
    let (value, origin) = match (value, set) {
        (Some(value), Some((_, origin))) => (value, Some(origin.clone())),
        _ => (default_value(&key, program), None),
    };
    let value = match value {
        Value::String(url)
            if name == "base_url" || name == "store" && database(Path::new(&url)).is_some() =>
        {
            let mut settings = SessionSettings::new();
            settings.base_url = Some(url);
            json!(settings.without_credentials().base_url)
        }
        value => value,
    };
    Row { name: key.name, value, origin }
}

/// Returns the default of a setting, or null if it has none or depends on the environment.
fn default_value(key: &Key<'_>, program: &Program) -> Value {
    if let Kind::Custom(setting) = key.kind {
        return json!(setting.default_value());
    }
    match &*key.name {
        "agent" => json!(program.agents.first().map(|(name, _)| name)),
        "approve" => json!(["read-only"]),
        "serve.host" | "serve.origin" | "serve.trusted_proxy" => json!([]),
        "models" => json!(default_models_file(&program.names)),
        "store" => json!(program.default_store()),
        "serve.addr" => json!(DEFAULT_ADDR),
        "serve.root" => json!(["."]),
        "serve.max_open_sessions" => json!(ServerBuilder::OPEN_SESSIONS),
        "serve.max_body" => json!(ServerBuilder::BODY_BYTES),
        "serve.max_runs" => json!(ServerBuilder::RUNS_PER_CLIENT),
        "serve.max_connections" => json!(ServerBuilder::CONNECTIONS_PER_CLIENT),
        "serve.max_time" => json!(ServerBuilder::RUN_TIME.as_secs()),
        "serve.grace" => json!(DEFAULT_GRACE),
        "serve.log_format" => json!("text"),
        _ => key.setting.map_or(Value::Null, declared_default),
    }
}

/// Returns the default that a setting is declared with, if it is a value.
fn declared_default(setting: &Setting) -> Value {
    let Some(phrase) = setting.default else {
        return match setting.kind {
            SettingType::Switch => json!(false),
            _ if setting.is_list() => json!([]),
            _ => Value::Null,
        };
    };
    let value = phrase.trim_end_matches(" by default").trim_matches('`');
    let kind = Kind::Plain(setting.kind);
    kind.read(&kind.of_variable(value), None).unwrap_or_default()
}

impl Row<'_> {
    fn json(&self) -> Value {
        let mut row = json!({ "key": self.name, "value": self.value, "source": "default" });
        match &self.origin {
            None => {}
            Some(Origin::Flag(flag)) => {
                row["source"] = json!("flag");
                row["flag"] = json!(flag);
            }
            Some(Origin::Session(name)) => {
                row["source"] = json!("session");
                row["session"] = json!(name);
            }
            Some(Origin::Variable(name)) => {
                row["source"] = json!("environment");
                row["variable"] = json!(name);
            }
            Some(Origin::File { path, line }) => {
                row["source"] = json!("file");
                row["path"] = json!(path);
                row["line"] = json!(line);
            }
        }
        row
    }

    fn value(&self) -> String {
        match (&self.value, &*self.name) {
            (Value::Null, "model") => "(chosen by the keys and servers on this machine)".into(),
            (Value::Null, "serve.allow_model") => "(all)".into(),
            (Value::Null, "serve.allow_address" | "serve.allow_approve") => {
                "(depends on who can reach the server)".into()
            }
            (Value::Null, "system") => "(built in)".into(),
            (Value::Null, _) => "(none)".into(),
            (value, _) => value.to_string(),
        }
    }

    fn origin(&self) -> String {
        match &self.origin {
            None => "default".into(),
            Some(Origin::Flag(flag)) => format!("flag {flag}"),
            Some(Origin::Session(name)) => format!("session {name}"),
            Some(Origin::Variable(name)) => format!("environment {name}"),
            Some(Origin::File { path, line }) => format!("{}:{line}", path.display()),
        }
    }
}

fn print_table(rows: &[Row<'_>]) -> io::Result<()> {
    let widths = |cell: fn(&Row<'_>) -> usize| rows.iter().map(cell).max().unwrap_or_default();
    let names = widths(|row| row.name.len());
    let values = widths(|row| row.value().chars().count()).min(MAX_VALUE_WIDTH);
    rows.iter().try_for_each(|row| {
        let (value, origin) = (row.value(), row.origin());
        output::text(&format!("{:<names$}  {value:<values$}  {origin}", row.name))
    })
}

#[cfg(test)]
mod tests {
    use loopwright_core::limits::Limits;
    use loopwright_core::model::ThinkingLevel;
    use loopwright_providers::{MAX_ATTEMPTS, MAX_RETRY_DELAY, Timeouts};

    use super::*;

    #[test]
    fn the_declared_defaults_are_those_in_force() {
        let default = |key: &str| {
            let setting = SessionSettings::ALL.iter().find(|setting| setting.key() == key);
            declared_default(setting.unwrap())
        };
        assert_eq!(default("max_turns"), json!(Limits::default().run.turns));
        assert_eq!(default("max_attempts"), json!(MAX_ATTEMPTS));
        assert_eq!(default("max_retry_delay"), json!(MAX_RETRY_DELAY.as_secs()));
        let timeouts = Timeouts::default();
        assert_eq!(default("connect_timeout"), json!(timeouts.connect.as_secs()));
        assert_eq!(default("first_event_timeout"), json!(timeouts.first_event.as_secs()));
        assert_eq!(default("idle_timeout"), json!(timeouts.idle.as_secs()));
        assert_eq!(default("silence_timeout"), json!(timeouts.silence.as_secs()));
        assert_eq!(default("thinking"), json!(ThinkingLevel::default()));
        assert_eq!(default("max_session_turns"), Value::Null);
        assert_eq!(default("guard"), json!(true));
        assert_eq!(default("readable"), json!([]));
    }
}
