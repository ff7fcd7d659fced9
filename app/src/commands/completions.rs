//! `loopwright completions` and `loopwright man`: generated from the definition of the command
//! line.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::command_line::command;
use crate::error::StartError;
use crate::output;
use crate::program::Program;

/// Prints the completions for a shell, and returns the exit code.
pub(crate) fn completions(shell: Shell, program: &Program) -> Result<u8, StartError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(program), program.names.app(), &mut script);
    output::after_write(output::data(&String::from_utf8_lossy(&script)))
}

/// Prints the manual page, or writes the pages of all commands into a directory, and returns the
/// exit code.
pub(crate) fn man(directory: Option<&Path>, program: &Program) -> Result<u8, StartError> {
    let mut command = command(program).disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default();
    let source = format!("{} {version}", program.names.app());
    let Some(directory) = directory else {
        let mut text = Vec::new();
        let rendered = page(command, &source).render(&mut text);
        return output::after_write(
            rendered.and_then(|()| output::data(&String::from_utf8_lossy(&text))),
        );
    };
    let written = fs::create_dir_all(directory).and_then(|()| write(&command, directory, &source));
    written.map(|()| 0).map_err(|why| {
        StartError(format!("The manual pages cannot be written to {}: {why}.", directory.display()))
    })
}

/// Writes the pages of a command and of its subcommands.
fn write(command: &Command, directory: &Path, source: &str) -> io::Result<()> {
    command.get_subcommands().try_for_each(|below| write(below, directory, source))?;
    page(command.clone(), source).generate_to(directory).map(drop)
}

fn page(command: Command, source: &str) -> Man {
    Man::new(command).source(source)
}
