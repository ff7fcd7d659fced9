//! `loopwright config`: what is in force, and where it comes from.

use std::io;
use std::path::Path;

use loopwright_core::agent::Limits;
use loopwright_core::model::ThinkingLevel;
use loopwright_server::ServerBuilder;
use serde_json::{Value, json};

use super::{FILE, KEYS, Layer, Source};
use crate::agent::StartError;
use crate::args::{ADDR, ConfigArgs, Options, Pattern, Thinking, without_key};
use crate::{models, print, store};

/// Shows all settings, and gives the exit code.
pub(crate) async fn config(args: &ConfigArgs) -> Result<u8, StartError> {
    let config = args.options.config.clone();
    let mut flags = Layer::of(&args.options, |key| Source::Flag(key.flag()))?;
    if let (Some(path), Some(key)) = (&args.at.store, KEYS.iter().find(|key| key.name == "store")) {
        flags.set(key, json!(path), Source::Flag(key.flag()));
    }
    let kept = match &args.session {
        Some(name) => {
            let mut at = args.at.clone();
            config.under_store(&mut at);
            store::kept_options(&store::known(&*store::open(&at)?, name).await?)?
        }
        None => Options::default(),
    };
    let name = args.session.clone().unwrap_or_default();
    let session = Layer::of(&kept, |_| Source::Session(name.clone()))?;
    let given = args.options.clone().over(kept);
    let project = config.project(&given.place)?;
    let root = given.place.workspace()?.root().to_owned();
    let layers = [&flags, &session, &config.environment, &project, &config.user];
    // Some settings go without others: an address without another model, for one.
    let force = Layer::of(&config.under(given)?, |key| Source::Flag(key.flag()))?;
    let rows: Vec<Row> = KEYS.iter().map(|key| row(key.name, &layers, &force)).collect();
    let shown = if args.json {
        rows.iter().try_for_each(|row| print::json_line(&row.json()))
    } else {
        table(&rows)
    };
    let code = print::printed(shown)?;
    if !args.json {
        let there = |path: &Path| {
            format!("{}{}", path.display(), if path.exists() { "" } else { " (not there)" })
        };
        match &config.file {
            Some(file) => print::tell(&format!(
                "Your file: {}. The project's: {}.",
                there(file),
                there(&root.join(FILE))
            )),
            None => print::tell("No file is read."),
        }
    }
    Ok(code)
}

/// A setting as it is shown.
struct Row {
    name: &'static str,
    value: Value,
    source: Option<Source>,
}

fn row(name: &'static str, layers: &[&Layer], force: &Layer) -> Row {
    let set = layers.iter().find_map(|layer| layer.0.get(name));
    let of_agent = name != "store" && !name.starts_with("serve.");
    let value = if of_agent { force.0.get(name) } else { set }.map(|(value, _)| value.clone());
    let (value, source) = match (value, set) {
        (Some(value), Some((_, source))) => (value, Some(source.clone())),
        _ => (built_in(name), None),
    };
    let value = match value {
        Value::String(url) if name == "base_url" => json!(without_key(&url)),
        Value::Array(items) if name == "approve" => {
            items.into_iter().map(|item| item.get("tool").cloned().unwrap_or(item)).collect()
        }
        value => value,
    };
    Row { name, value, source }
}

/// What is in force where nothing is set; null where that depends on more than settings, or is
/// nothing.
fn built_in(name: &str) -> Value {
    match name {
        "no_agents_md" | "guard" | "network" | "unconfined" => json!(false),
        "thinking" => json!(Thinking::from(ThinkingLevel::default())),
        "pattern" => json!(Pattern::default()),
        "max_turns" => json!(Limits::default().turns),
        "approve" => json!(["read-only"]),
        "readable" | "writable" | "serve.host" => json!([]),
        "models" => json!(models::usual_list()),
        "store" => json!(store::usual_place()),
        "serve.addr" => json!(ADDR),
        "serve.root" => json!(["."]),
        "serve.max_runs" => json!(ServerBuilder::RUNS_PER_CLIENT),
        _ => Value::Null,
    }
}

impl Row {
    fn json(&self) -> Value {
        let mut row = json!({ "key": self.name, "value": self.value, "source": "default" });
        match &self.source {
            None => {}
            Some(Source::Flag(flag)) => (row["source"], row["flag"]) = (json!("flag"), json!(flag)),
            Some(Source::Session(name)) => {
                (row["source"], row["session"]) = (json!("session"), json!(name))
            }
            Some(Source::Variable(name)) => {
                (row["source"], row["variable"]) = (json!("environment"), json!(name))
            }
            Some(Source::File { path, line }) => {
                (row["source"], row["path"], row["line"]) =
                    (json!("file"), json!(path), json!(line));
            }
        }
        row
    }

    fn value(&self) -> String {
        match (&self.value, self.name) {
            (Value::Null, "model") => "(by what is there: keys, servers on this machine)".into(),
            (Value::Null, "system") => "(built in)".into(),
            (Value::Null, _) => "(none)".into(),
            (value, _) => value.to_string(),
        }
    }

    fn source(&self) -> String {
        match &self.source {
            None => "default".into(),
            Some(Source::Flag(flag)) => format!("flag {flag}"),
            Some(Source::Session(name)) => format!("session {name}"),
            Some(Source::Variable(name)) => format!("environment {name}"),
            Some(Source::File { path, line }) => format!("{}:{line}", path.display()),
        }
    }
}

fn table(rows: &[Row]) -> io::Result<()> {
    let widths = |cell: fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or_default();
    let names = widths(|row| row.name.len());
    let values = widths(|row| row.value().chars().count()).min(60);
    rows.iter().try_for_each(|row| {
        print::text(&format!("{:<names$}  {:<values$}  {}", row.name, row.value(), row.source()))
    })
}
