//! `completions` and `man`.

use std::fs;
use std::process::{Command, Stdio};

use loopwright_test_support::process::project;

use crate::BIN;

/// C121: completions load in bash and complete commands and options; every shell has a script.
#[test]
fn bash_completes_the_command_line() {
    let project = project();
    for (shell, says) in [
        ("zsh", "#compdef loopwright"),
        ("fish", "complete -c loopwright"),
        ("elvish", "edit:completion:arg-completer[loopwright]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let exit = BIN.run(&project, &["completions", shell]);
        assert!(
            exit.code == 0 && exit.out.contains(says) && exit.err.is_empty(),
            "{shell}: {exit:?}"
        );
    }
    let unknown = BIN.run(&project, &["completions", "cmd"]);
    assert!(unknown.code == 2 && unknown.err.contains("bash"), "{unknown:?}");

    let script = "source <(\"$0\" completions bash) && complete -p loopwright >/dev/null || exit 9
        words() {
            COMP_WORDS=(loopwright \"$@\"); COMP_CWORD=$#; COMPREPLY=()
            _loopwright loopwright \"${!#}\" \"${COMP_WORDS[$#-1]}\"
            echo \"${COMPREPLY[*]}\"
        }
        words ru; words run --output-s; words sessions ex; words completions z
        words run --thinking x";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, env!("CARGO_BIN_EXE_loopwright")]).stdin(Stdio::null());
    let done = bash.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!((out.as_ref(), err.as_ref()), ("run\n--output-schema\nexport\nzsh\nxhigh\n", ""));
}

/// C122: `man` prints the manual page and writes one file per command; the `man` program renders
/// them without warnings.
#[test]
fn there_is_a_manual_page_for_each_command() {
    let project = project();
    let page = BIN.run(&project, &["man"]);
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    assert_eq!(BIN.run(&project, &["man", "pages/man1"]).code, 0);
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(project.path().join("pages/man1")).unwrap() {
        let (path, page) =
            entry.map(|entry| (entry.path(), fs::read_to_string(entry.path()).unwrap())).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for part in [
            &*format!(".TH {name} 1  \"loopwright {}\"", env!("CARGO_PKG_VERSION")),
            ".SH NAME",
            ".SH SYNOPSIS",
            ".SH DESCRIPTION",
        ] {
            assert!(page.lines().any(|line| line.starts_with(part)), "{name} lacks {part}");
        }
        let mut man = Command::new("man");
        man.args(["--warnings", "-l", "-Tutf8", "-E", "UTF-8"]).arg(&path).env("LC_ALL", "C.UTF-8");
        if let Ok(shown) = man.stdin(Stdio::null()).output() {
            let (out, err) =
                (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
            assert!(
                shown.status.success() && out.contains("Print help") && err.is_empty(),
                "{name}: {err}\n{out}"
            );
        }
        names.push(name);
    }
    for name in [
        "loopwright",
        "loopwright-run",
        "loopwright-sessions",
        "loopwright-sessions-export",
        "loopwright-config",
    ] {
        assert!(names.iter().any(|other| other == name), "{name} is not in {names:?}");
    }
    assert!(
        fs::read_to_string(project.path().join("pages/man1/loopwright.1")).unwrap() == page.out
    );
    let nowhere = BIN.run(&project, &["man", "Cargo.toml/x"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("Cargo.toml/x"), "{nowhere:?}");
}
