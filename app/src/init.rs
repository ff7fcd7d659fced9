//! `loopwright init`: a new crate with an agent, two tools, tests and the app around it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loopwright_cli::clap::{Arg, ArgMatches, Command, value_parser};

/// The files of the crate: their paths and contents. `starter` stands for the name of the crate.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    ("README.md", include_str!("../template/README.md.in")),
    (".gitignore", include_str!("../template/gitignore")),
    ("src/lib.rs", include_str!("../template/lib.rs")),
    ("src/main.rs", include_str!("../template/main.rs")),
    ("tests/suite.rs", include_str!("../template/suite.rs")),
];

/// Names that a crate cannot have: keywords, crates of the standard library, and its own
/// dependencies.
const RESERVED: [&str; 62] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "loopwright",
    "loopwright_cli",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "Self",
    "starter",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "build",
];

/// Returns the definition of the command.
pub(crate) fn command() -> Command {
    let directory = Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The directory to create; its last part is the name of the crate");
    let checkout = Arg::new("checkout")
        .long("checkout")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("Depend on this checkout of loopwright instead of the published crates")
        .long_help(
            "Depend on this checkout of loopwright instead of the published crates, with the \
             versions of its Cargo.lock, and build in its target directory.\n\nWithout it, a \
             checkout that contains the current directory is used.",
        );
    Command::new("init")
        .about("Create a crate with an agent, two tools, tests and the app around it")
        .arg(directory)
        .arg(checkout)
}

/// Creates the crate, and prints the next steps. Exit codes: 0 done, 2 bad usage.
pub(crate) fn run(arguments: &ArgMatches) -> ExitCode {
    let Some(directory) = arguments.get_one::<PathBuf>("directory") else {
        return ExitCode::from(2); // it is required
    };
    match create(directory, arguments.get_one::<PathBuf>("checkout").map(PathBuf::as_path)) {
        Ok(source) => {
            let shown = directory.display();
            eprintln!("Created {shown}: an agent, two tools, tests and an app.");
            if source.is_none() {
                eprintln!(
                    "It depends on the published crates of loopwright {}. If they are not \
                     published yet, use `--checkout DIR`.",
                    env!("CARGO_PKG_VERSION")
                );
            }
            eprintln!("Next:\n\n    cd {shown}\n    cargo test\n    cargo run");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Creates the crate, and returns the checkout that it depends on. A failure leaves no part of it
/// behind.
fn create(directory: &Path, checkout: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    let checkout = match checkout {
        Some(checkout) if is_checkout(checkout) => Some(absolute(checkout)?),
        Some(checkout) => {
            let shown = checkout.display();
            return Err(format!(
                "{shown} is no checkout of loopwright: it has no Cargo.toml of loopwright-core. \
                 Give the directory that contains it."
            ));
        }
        None => {
            let current = absolute(Path::new("."))?;
            current.ancestors().find(|parent| is_checkout(parent)).map(Path::to_owned)
        }
    };
    let shown = directory.display();
    match fs::create_dir(directory) {
        Ok(()) => {}
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            return Err(format!(
                "{shown} exists already; nothing was changed. Choose another name."
            ));
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let parent = directory.parent().unwrap_or(directory).display();
            return Err(format!("{shown} cannot be created: there is no directory {parent}."));
        }
        Err(why) => return Err(format!("{shown} cannot be created: {why}.")),
    }
    write(directory, name, checkout.as_deref()).map_err(|why| {
        let _ = fs::remove_dir_all(directory); // created by this function
        format!("{shown} could not be filled, and was removed: {why}.")
    })?;
    Ok(checkout)
}

/// Writes the files of the crate.
fn write(directory: &Path, name: &str, checkout: Option<&Path>) -> io::Result<()> {
    for (path, template) in FILES {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        let name = if is_code { name.replace('-', "_") } else { name.to_owned() };
        fs::write(path, with_sources(template, checkout).replace("starter", &name))?;
    }
    let Some(checkout) = checkout else { return Ok(()) };
    // A workspace of its own, even inside the checkout.
    let manifest = directory.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(manifest, format!("{text}\n[workspace]\n"))?;
    fs::copy(checkout.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    // Shares the checkout's target directory, so that nothing is built twice.
    fs::create_dir(directory.join(".cargo"))?;
    let target = checkout.join("target");
    let config = format!("[build]\ntarget-dir = {:?}\n", target.to_string_lossy());
    fs::write(directory.join(".cargo/config.toml"), config)
}

/// Returns a template with the sources of loopwright's crates: `$SOURCE(facade)` stands for the
/// crate in that directory of the repository.
fn with_sources(template: &str, checkout: Option<&Path>) -> String {
    ["facade", "app"].iter().fold(template.to_owned(), |text, crate_directory| {
        let source = match checkout {
            Some(checkout) => {
                let path = checkout.join(crate_directory);
                format!("path = {:?}", path.to_string_lossy()) // Rust's quoting is valid TOML
            }
            None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
        };
        text.replace(&format!("$SOURCE({crate_directory})"), &source)
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let is_valid = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
    if !is_valid {
        return Err(format!(
            "`{name}` cannot be the name of the crate: it begins with a letter from a to z and \
             consists of at most 64 of these letters, digits, `-` and `_`."
        ));
    }
    match RESERVED.contains(&&*name.replace('-', "_")) {
        true => {
            Err(format!("A crate cannot be named `{name}`, which has a meaning in Rust or here."))
        }
        false => Ok(()),
    }
}

/// Returns whether the directory is a checkout of loopwright.
fn is_checkout(directory: &Path) -> bool {
    let manifest = fs::read_to_string(directory.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.contains("\nname = \"loopwright-core\"\n"))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|why| format!("{} cannot be opened: {why}.", path.display()))
}
