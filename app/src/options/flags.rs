//! [`Flags`]: the settings of sessions as flags of a command.

use std::ops::{Deref, DerefMut};

use clap::builder::{
    BoolValueParser, NonEmptyStringValueParser, PossibleValue, PossibleValuesParser,
    StringValueParser, TypedValueParser,
};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use loopwright_host::{SessionSettings, Setting, SettingPlace, SettingScope, SettingType};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::custom::custom_values;
use super::values::{dollars, protected_path};

/// All settings that have a flag.
pub(crate) const SESSION: u8 = 0;
/// The defaults of a server's sessions.
pub(crate) const SERVER: u8 = 1;
/// The settings of the directory and of commands.
pub(crate) const FILES: u8 = 2;
/// The list of models.
pub(crate) const MODELS: u8 = 3;

/// Settings on the command line, among the settings `OF` ([`SESSION`] and so on).
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Flags<const OF: u8>(pub(crate) SessionSettings);

/// Returns whether the setting is one of the settings `of`.
pub(crate) fn has(of: u8, setting: &Setting) -> bool {
    setting.place != SettingPlace::Http
        && match of {
            SERVER => {
                let is_default = setting.is_host_only && setting.place == SettingPlace::Everywhere;
                setting.name == "model" || is_default && setting.name != "guard"
            }
            FILES => setting.name == "work_dir" || setting.scope == SettingScope::Tools,
            MODELS => setting.name == "models",
            _ => true,
        }
}

impl<const OF: u8> Deref for Flags<OF> {
    type Target = SessionSettings;

    fn deref(&self) -> &SessionSettings {
        &self.0
    }
}

impl<const OF: u8> DerefMut for Flags<OF> {
    fn deref_mut(&mut self) -> &mut SessionSettings {
        &mut self.0
    }
}

impl<const OF: u8> Args for Flags<OF> {
    fn augment_args(command: Command) -> Command {
        let flags = SessionSettings::ALL.iter().filter(|setting| has(OF, setting)).map(flag);
        let command = command.args(flags);
        match OF {
            SERVER => command.mut_arg("base_url", |flag| flag.requires("model")),
            _ => command,
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const OF: u8> FromArgMatches for Flags<OF> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Map::new();
        for setting in SessionSettings::ALL.iter().filter(|setting| has(OF, setting)) {
            let values = matches.get_many::<Value>(setting.key()).map(Iterator::cloned);
            let value = match (values, setting.is_list()) {
                (None, _) => continue,
                (Some(values), true) => values.collect(),
                (Some(mut values), false) => values.next_back().unwrap_or_default(),
            };
            given.insert(setting.json_name(), value);
        }
        let settings = SessionSettings::deserialize(Value::Object(given));
        let mut settings =
            settings.map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, why))?;
        settings.custom = custom_values(matches);
        Ok(Flags(settings))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(setting: &Setting) -> Arg {
    let (line, all) = help(setting);
    let flag = Arg::new(setting.key())
        .long(setting.key().replace('_', "-"))
        .value_name(setting.placeholder)
        .action(if setting.is_list() { ArgAction::Append } else { ArgAction::Set })
        .help(line);
    let flag = match all {
        Some(all) => flag.long_help(all),
        None => flag,
    };
    let flag = match setting.name {
        "unconfined" => flag.conflicts_with_all(["readable", "writable"]),
        _ => flag,
    };
    match setting.kind {
        SettingType::Switch => flag
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(BoolValueParser::new().map(Value::from)),
        SettingType::Count => flag.value_parser(value_parser!(u32).range(1..).map(Value::from)),
        SettingType::Sum => flag.value_parser(|text: &str| dollars(text).map(Value::from)),
        SettingType::Words(words) => {
            let words = words.iter().map(|(word, help)| match help.is_empty() {
                true => PossibleValue::new(*word),
                false => PossibleValue::new(*word).help(*help),
            });
            flag.value_parser(PossibleValuesParser::new(words).map(Value::from))
        }
        SettingType::Path | SettingType::Paths => {
            flag.value_parser(NonEmptyStringValueParser::new().map(Value::from))
        }
        SettingType::ProtectedPaths => {
            flag.value_parser(|path: &str| protected_path(path).map(Value::from))
        }
        SettingType::Text | SettingType::Tools | SettingType::Custom => {
            flag.value_parser(StringValueParser::new().map(Value::from))
        }
    }
}

/// Returns the help texts of a setting: a line, and the whole documentation if it is longer.
fn help(setting: &Setting) -> (String, Option<String>) {
    let paragraphs = setting.docs.split("\n\n");
    let paragraphs = paragraphs.map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut paragraphs: Vec<String> = paragraphs.collect();
    let mut line = paragraphs.first().map_or("", |line| line.trim_end_matches('.')).to_owned();
    if let Some(default) = setting.default {
        line = format!("{line}; {default}");
    }
    if setting.is_list() {
        line.push_str(". May be repeated");
    }
    let is_longer = paragraphs.len() > 1;
    if let Some(first) = paragraphs.first_mut() {
        *first = format!("{line}.");
    }
    (line, is_longer.then(|| paragraphs.join("\n\n")))
}
