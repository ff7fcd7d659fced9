//! The flags of the app's own settings.

use std::collections::BTreeMap;

use clap::builder::{BoolValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Command, Id};
use loopwright_host::{CustomSetting, SettingKind};
use serde_json::Value;

/// The beginning of the ids of these flags, which no built-in flag has.
const PREFIX: &str = "custom.";

/// Adds the flags of these settings to the command and its subcommands, where they take the
/// settings of sessions.
pub(crate) fn with_flags(command: Command, settings: &[CustomSetting]) -> Command {
    let takes_settings = command.get_arguments().any(|arg| arg.get_id() == "model");
    let flags = settings.iter().filter(|_| takes_settings).map(flag);
    command.args(flags).mut_subcommands(|below| with_flags(below, settings))
}

/// Returns the values of the app's own settings on a command line.
pub(super) fn custom_values(matches: &ArgMatches) -> BTreeMap<String, Value> {
    let value = |id: &Id| {
        let name = id.as_str().strip_prefix(PREFIX)?;
        Some((name.to_owned(), matches.get_one::<Value>(id.as_str())?.clone()))
    };
    matches.ids().filter_map(value).collect()
}

fn flag(setting: &CustomSetting) -> Arg {
    let name = setting.name().to_owned();
    let flag = Arg::new(format!("{PREFIX}{name}")).long(name).help(help(setting));
    match setting.kind() {
        SettingKind::Switch => flag
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(BoolValueParser::new().map(Value::from)),
        SettingKind::Choice(words) => {
            let words = PossibleValuesParser::new(words.iter().cloned());
            flag.value_name("WORD").value_parser(words.map(Value::from))
        }
        kind => {
            let value_name = match kind {
                SettingKind::Integer => "N",
                SettingKind::Number => "NUMBER",
                _ => "TEXT",
            };
            let setting = setting.clone();
            let parse = move |text: &str| {
                let value = setting.parse(text);
                value.ok_or_else(|| format!("it must be {}", setting.allowed()))
            };
            flag.value_name(value_name).allow_negative_numbers(true).value_parser(parse)
        }
    }
}

fn help(setting: &CustomSetting) -> String {
    match setting.default_value() {
        None | Some(Value::Bool(false)) => setting.help().to_owned(),
        Some(Value::String(text)) => format!("{}; {text} by default", setting.help()),
        Some(value) => format!("{}; {value} by default", setting.help()),
    }
}
