//! `loopwright completions` and `loopwright man`: what shells and manuals know of the command line,
//! made of its definition.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::agent::StartError;
use crate::args::Cli;
use crate::print;

/// Prints the completions of a shell, and gives the exit code.
pub(crate) fn completions(shell: Shell) -> Result<u8, StartError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loopwright", &mut script);
    print::printed(print::text(&String::from_utf8_lossy(&script)))
}

/// Prints the manual page, or writes those of all commands into a directory, and gives the exit
/// code.
pub(crate) fn man(directory: Option<&Path>) -> Result<u8, StartError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = directory else {
        let mut text = Vec::new();
        let made = page(command).render(&mut text);
        return print::printed(made.and_then(|()| print::text(&String::from_utf8_lossy(&text))));
    };
    let written = std::fs::create_dir_all(directory).and_then(|()| write(&command, directory));
    written.map(|()| 0).map_err(|why| {
        StartError(format!(
            "The manual pages cannot be written into {}: {why}.",
            directory.display()
        ))
    })
}

/// The pages of a command and of those below it.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|below| write(below, directory))?;
    page(command.clone()).generate_to(directory).map(drop)
}

fn page(command: Command) -> Man {
    Man::new(command).source(concat!("loopwright ", env!("CARGO_PKG_VERSION")))
}
