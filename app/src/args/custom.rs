//! The names that an app cannot use for its own commands and settings.

use clap::{Command, CommandFactory};

use super::Cli;

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
