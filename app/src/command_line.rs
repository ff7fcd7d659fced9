//! The command line of an app: `loopwright`'s with the app's name, reduced to what the app has.

use clap::builder::StyledStr;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use loopwright_host::{SessionSettings, Setting, SettingScope};

use crate::args::Cli;
use crate::environment::Names;
use crate::options;
use crate::program::{OwnCommand, Program};

/// A parsed command line.
pub(crate) enum Parsed<'p> {
    BuiltIn(Box<Cli>),
    /// A command of the app's own, with its arguments.
    Own {
        own: &'p OwnCommand,
        arguments: Box<ArgMatches>,
        no_config: bool,
    },
}

/// Parses the command line. Ends the process if it is invalid or asks for help.
pub(crate) fn parse(program: &Program) -> Parsed<'_> {
    let matches = command(program).get_matches();
    if let Some((name, arguments)) = matches.subcommand() {
        let own = program.commands.iter().find(|own| own.command.get_name() == name);
        if let Some(own) = own {
            let no_config = matches.get_flag("no_config");
            return Parsed::Own { own, arguments: Box::new(arguments.clone()), no_config };
        }
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    Parsed::BuiltIn(Box::new(cli))
}

/// Returns the definition of the command line.
pub(crate) fn command(program: &Program) -> Command {
    let command = options::with_flags(for_app(Cli::command(), program), &program.settings);
    let mut command = command.name(program.names.app().to_owned());
    if let Some(version) = &program.version {
        command = command.version(version.clone());
    }
    if let Some(about) = &program.about {
        command = command.about(about.clone()).long_about(None::<&str>);
    }
    command.subcommands(program.commands.iter().map(|own| own.command.clone()))
}

/// Adapts a command and its subcommands to the app.
fn for_app(command: Command, program: &Program) -> Command {
    let names = &program.names;
    let mut command = command.mut_args(|arg| argument(arg, program));
    if let Some(about) = command.get_about() {
        let about = renamed(about, names);
        command = command.about(about);
    }
    if let Some(about) = command.get_long_about() {
        let about = renamed(about, names);
        command = command.long_about(about);
    }
    if command.get_name() == "tools" && !program.has_coding_agent() {
        command = command.hide(true);
    }
    command.mut_subcommands(|below| for_app(below, program))
}

fn argument(mut arg: Arg, program: &Program) -> Arg {
    if let Some(help) = arg.get_help() {
        let help = renamed(help, &program.names);
        arg = arg.help(help);
    }
    if let Some(help) = arg.get_long_help() {
        let help = renamed(help, &program.names);
        arg = arg.long_help(help);
    }
    let id = arg.get_id().as_str();
    let is_coding = is_coding(id) || id == "system" && program.system.is_none();
    let is_hidden =
        is_coding && !program.has_coding_agent() || id == "agent" && program.agents.len() < 2;
    if is_hidden { arg.hide(true) } else { arg }
}

/// Returns whether only coding agents have the setting with this key.
fn is_coding(key: &str) -> bool {
    let of_coding = |setting: &Setting| setting.scope != SettingScope::All;
    SessionSettings::ALL.iter().any(|setting| setting.key() == key && of_coding(setting))
}

fn renamed(help: &StyledStr, names: &Names) -> String {
    let help = help.to_string();
    help.replace("loopwright", names.app()).replace("LOOPWRIGHT_", &names.prefix())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Kind;

    fn program(name: &str, agents: &[(&str, Kind)]) -> Program {
        let agents = agents.iter().map(|(name, kind)| ((*name).into(), kind.clone())).collect();
        Program { names: Names::new(name), agents, ..Program::default() }
    }

    /// Returns all texts of a command line.
    fn help(command: &mut Command) -> String {
        command.build();
        let own = command.render_long_help().to_string();
        let below = command.get_subcommands_mut().map(help).collect::<Vec<_>>();
        format!("{own}{}", below.concat())
    }

    #[test]
    fn an_app_has_its_own_name_everywhere() {
        let help = help(&mut command(&program("acme", &[("coding", Kind::Coding)])));
        assert!(help.contains("ACME_TOKEN") && help.contains("acme.toml"), "{help}");
        let names = help.lines().filter(|line| line.to_lowercase().contains("loopwright"));
        assert_eq!(names.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn an_app_has_commands_of_its_own() {
        let own = |name: &'static str| OwnCommand {
            command: Command::new(name).about("Print what was paid"),
            run: Box::new(|_, _, _| Ok(std::process::ExitCode::SUCCESS)),
        };
        let with = |name| Program {
            commands: vec![own(name)],
            ..program("acme", &[("coding", Kind::Coding)])
        };
        assert!(with("report").check().is_ok());
        assert!(help(&mut command(&with("report"))).contains("Print what was paid"));
        for name in ["run", "help"] {
            assert!(with(name).check().unwrap_err().0.contains("built-in"), "{name}");
        }
    }

    #[test]
    fn an_app_shows_no_options_that_its_agents_do_not_have() {
        let own = || program("acme", &[]);
        let mut run = command(&own());
        let run = run.find_subcommand_mut("run").unwrap();
        for (option, is_hidden) in [("system", true), ("guard", true), ("model", false)] {
            let arg = run.get_arguments().find(|arg| arg.get_id() == option).unwrap();
            assert_eq!(arg.is_hide_set(), is_hidden, "{option}");
        }
        let coding = help(&mut command(&program("acme", &[("coding", Kind::Coding)])));
        assert!(coding.contains("--network") && !help(&mut command(&own())).contains("--network"));
    }
}
