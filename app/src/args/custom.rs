//! The flags of the app's own settings, and the names that an app cannot use.

use std::collections::BTreeMap;

use clap::builder::{BoolValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Command, CommandFactory};
use loopwright_server::{CustomSetting, SettingKind};
use serde_json::Value;

use super::{Cli, Command as CliCommand};

/// Adds the flags of these settings to the command and its subcommands, where they take the
/// settings of sessions.
pub(crate) fn with_flags(command: Command, settings: &[CustomSetting]) -> Command {
    let takes_settings = command.get_arguments().any(|arg| arg.get_id() == "model");
    let flags = settings.iter().filter(|_| takes_settings).map(flag);
    command.args(flags).mut_subcommands(|below| with_flags(below, settings))
}

/// Returns the values of these settings on a command line.
pub(crate) fn values(matches: &ArgMatches, settings: &[CustomSetting]) -> BTreeMap<String, Value> {
    let matches = matches.subcommand().map_or(matches, |(_, below)| below);
    let value = |setting: &CustomSetting| {
        let value = matches.try_get_one::<Value>(&id(setting)).ok().flatten()?;
        Some((setting.name().to_owned(), value.clone()))
    };
    settings.iter().filter_map(value).collect()
}

/// Returns whether every app has a command of this name.
pub(crate) fn is_built_in(name: &str) -> bool {
    name == "help" || Cli::command().find_subcommand(name).is_some()
}

/// Returns the names of all flags that every app has, of all commands.
pub(crate) fn built_in_flags() -> Vec<String> {
    let mut command = Cli::command();
    command.build();
    let mut names = Vec::new();
    collect_flags(&command, &mut names);
    names
}

fn collect_flags(command: &Command, names: &mut Vec<String>) {
    for arg in command.get_arguments() {
        names.extend(arg.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned));
    }
    command.get_subcommands().for_each(|below| collect_flags(below, names));
}

impl Cli {
    /// Returns the values of the app's own settings in the arguments of the command, if it takes
    /// them.
    pub(crate) fn custom_mut(&mut self) -> Option<&mut BTreeMap<String, Value>> {
        let options = match &mut self.command {
            None => &mut self.chat.options,
            Some(CliCommand::Run(args)) => &mut args.options,
            Some(CliCommand::Chat(args)) => &mut args.options,
            Some(CliCommand::Mcp(args)) => &mut args.options,
            Some(CliCommand::Acp(args)) => &mut args.options,
            Some(CliCommand::Config(args)) => &mut args.options,
            Some(CliCommand::Approve(args)) => &mut args.decision.options,
            Some(CliCommand::Deny(args)) => &mut args.decision.options,
            Some(CliCommand::Answer(args)) => &mut args.decision.options,
            Some(CliCommand::Serve(args)) => return Some(&mut args.custom),
            Some(_) => return None,
        };
        Some(&mut options.custom)
    }
}

/// Returns an id that no built-in argument has.
fn id(setting: &CustomSetting) -> String {
    format!("custom.{}", setting.name())
}

fn flag(setting: &CustomSetting) -> Arg {
    let name = setting.name().to_owned();
    let flag = Arg::new(id(setting)).long(name).help(help(setting));
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
