//! `loopwright completions` and `loopwright man`: generated from the definition of the command
//! line.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::error::StartError;
use crate::output;

/// Prints the completions for a shell, and returns the exit code.
pub(crate) fn completions(shell: Shell) -> Result<u8, StartError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loopwright", &mut script);
    output::after_write(output::data(&String::from_utf8_lossy(&script)))
}

/// Prints the manual page, or writes the pages of all commands into a directory, and returns the
/// exit code.
pub(crate) fn man(directory: Option<&Path>) -> Result<u8, StartError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = directory else {
        let mut text = Vec::new();
        let rendered = page(command).render(&mut text);
        return output::after_write(
            rendered.and_then(|()| output::data(&String::from_utf8_lossy(&text))),
        );
    };
    let written = fs::create_dir_all(directory).and_then(|()| write(&command, directory));
    written.map(|()| 0).map_err(|why| {
        StartError(format!("The manual pages cannot be written to {}: {why}.", directory.display()))
    })
}

/// Writes the pages of a command and of its subcommands.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|below| write(below, directory))?;
    page(command.clone()).generate_to(directory).map(drop)
}

fn page(command: Command) -> Man {
    Man::new(command).source(concat!("loopwright ", env!("CARGO_PKG_VERSION")))
}
