//! The user's editor, for arguments.

use std::ffi::OsString;
use std::io::Read;
use std::process::Command;

use loopwright::CallId;

use crate::tui::state::Told;

/// The editor that the user has chosen, if any.
fn editor() -> Option<OsString> {
    ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|name| !name.is_empty())
}

/// Has the arguments edited. Blocks until the editor ends; the terminal is its own meanwhile.
pub(crate) fn edit(call: CallId, json: String) -> Told {
    match editor() {
        None => Told::NoEditor { call, json },
        Some(editor) => match run(&editor, &json) {
            Ok(json) => Told::Edited { call, json },
            Err(why) => Told::Refused { call, why },
        },
    }
}

/// Whether there is an editor to hand the terminal to.
pub(crate) fn is_there() -> bool {
    editor().is_some()
}

fn run(editor: &OsString, json: &str) -> Result<String, String> {
    let fail = |why: std::io::Error| format!("The arguments could not be edited: {why}.");
    let dir = Private::new().map_err(fail)?;
    let file = dir.0.join("arguments.json");
    std::fs::write(&file, format!("{json}\n")).map_err(fail)?;
    // As shells have it: the variable may hold options.
    let mut command = if cfg!(unix) {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("{} \"$@\"", editor.to_string_lossy())).arg("sh");
        command
    } else {
        Command::new(editor)
    };
    let ended = command.arg(&file).status().map_err(|why| {
        format!("The editor `{}` could not be started: {why}. Set VISUAL or EDITOR.", editor.to_string_lossy())
    })?;
    if !ended.success() {
        return Err(format!("The editor ended with {ended}; the arguments are as they were."));
    }
    let mut text = String::new();
    std::fs::File::open(&file).and_then(|mut file| file.read_to_string(&mut text)).map_err(fail)?;
    Ok(text)
}

/// A directory that nobody else may read, removed with what is in it.
struct Private(std::path::PathBuf);

impl Private {
    fn new() -> std::io::Result<Self> {
        use loopwright::Ambient;
        let name = format!("loopwright-{:016x}", loopwright::SystemAmbient.random());
        let path = std::env::temp_dir().join(name);
        #[allow(unused_mut, reason = "the mode is set where there is one")]
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        Ok(Private(path))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
