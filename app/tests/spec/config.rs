//! `loopwright.toml` of the user and of the project, the environment, and `loopwright config`.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

const HOME: (&str, &str) = ("HOME", "home");
const USER: &str = "home/.config/loopwright/loopwright.toml";

/// Writes a file in the project.
fn write(project: &TempDir, path: &str, text: &str) {
    let file = project.path().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Runs the binary with a home directory in the project.
fn at_home(project: &TempDir, args: &[&str], vars: &[(&str, &str)]) -> Exit {
    BIN.start_with(project, args, &[&[HOME], vars].concat()).end()
}

/// Returns the rows of `config --json` by key.
fn shown(
    project: &TempDir,
    args: &[&str],
    vars: &[(&str, &str)],
) -> impl Fn(&str) -> Value + use<> {
    let exit = at_home(project, &[&["config", "--json"], args].concat(), vars);
    assert_eq!((exit.code, exit.err.as_str()), (0, ""), "{exit:?}");
    let rows: Vec<Value> =
        exit.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    move |key| rows.iter().find(|row| row["key"] == key).unwrap().clone()
}

/// C116: a setting comes from the source with the highest precedence that has it: a flag, the
/// stored session, the environment, the project's file, the user's file, the built-in default;
/// `config` prints each setting's value and source.
#[test]
fn the_strongest_layer_applies_and_is_shown() {
    let project = project();
    let from = |args: &[&str], vars: &[(&str, &str)]| {
        let row = shown(&project, args, vars)("max_turns");
        (row["value"].as_u64().unwrap(), row["source"].as_str().unwrap().to_owned(), row)
    };
    let (value, source, _) = from(&[], &[]);
    assert_eq!((value, source.as_str()), (50, "default"));
    write(&project, USER, "# mine\n\nmax_turns = 2\napprove = [\"write_file\"]\n");
    let (value, source, row) = from(&[], &[]);
    assert_eq!((value, source.as_str(), &row["line"]), (2, "file", &json!(3)));
    assert!(row["path"].as_str().unwrap().ends_with(USER));
    write(&project, "loopwright.toml", "max_turns = 3");
    let (value, _, row) = from(&[], &[]);
    assert!(value == 3 && row["path"] == json!(project.path().join("loopwright.toml")), "{row}");
    let variable = [("LOOPWRIGHT_MAX_TURNS", "4")];
    let (value, source, row) = from(&[], &variable);
    assert_eq!(
        (value, source.as_str(), &row["variable"]),
        (4, "environment", &json!("LOOPWRIGHT_MAX_TURNS"))
    );
    let first = ["run", "--model", "offline", "--session", "s", "--max-turns", "5", "Hello"];
    assert_eq!(at_home(&project, &first, &[]).code, 0);
    let (value, source, row) = from(&["--session", "s"], &variable);
    assert_eq!((value, source.as_str(), &row["session"]), (5, "session", &json!("s")));
    let (value, source, row) = from(&["--session", "s", "--max-turns", "6"], &variable);
    assert_eq!((value, source.as_str(), &row["flag"]), (6, "flag", &json!("--max-turns")));
    assert_eq!(from(&["--no-config"], &[]).1, "default");
    assert_eq!(from(&[], &[("LOOPWRIGHT_CONFIG", "")]).1, "default");
    write(&project, "other.toml", "max_turns = 7\n");
    fs::remove_file(project.path().join("loopwright.toml")).unwrap();
    assert_eq!(from(&[], &[("LOOPWRIGHT_CONFIG", "other.toml")]).0, 7);

    let table = at_home(&project, &["config"], &[]);
    let line = table.out.lines().find(|line| line.starts_with("max_turns ")).unwrap();
    assert!(line.contains(" 2 ") && line.ends_with(&format!("{USER}:3")), "{line}");
    assert!(
        table
            .out
            .lines()
            .any(|line| line.starts_with("approve ") && line.contains("[\"write_file\"]"))
    );
    assert!(table.err.contains("loopwright.toml (does not exist)"), "{table:?}");
}

#[test]
fn what_is_configured_is_what_happens() {
    let (project, server) = (project(), Server::start());
    write(
        &project,
        USER,
        &format!(
            "model = \"custom/mine\"\nbase_url = \"{}\"\napprove = \"write_file\"",
            server.url
        ),
    );
    write(&project, "loopwright.toml", "system = \"Be brief.\"\nthinking = \"low\"");
    let run = BIN.start_with(&project, &["run", "--session", "s", "Write it"], &[HOME]);
    let request = server.request();
    assert_eq!(
        (&request.body["model"], &request.body["messages"][0]["content"]),
        (&json!("mine"), &json!("Be brief."))
    );
    request.call(&[("write_file", json!({ "path": "a.txt", "content": "hi" }))]);
    server.request().say("Done.");
    assert_eq!(run.end().code, 0);
    assert!(project.path().join("a.txt").exists());

    // Configured values are not stored with the session, except the model and its address: the file
    // may change.
    write(&project, USER, "model = \"custom/other\"");
    let second = BIN.start_with(&project, &["run", "--session", "s", "Write it again"], &[HOME]);
    let request = server.request();
    assert_eq!(request.body["model"], "mine");
    request.call(&[("write_file", json!({ "path": "b.txt", "content": "hi" }))]);
    assert_eq!(second.end().code, 3, "it is asked for");

    // A different model has a different address.
    write(&project, USER, &format!("base_url = \"{}\"\nmodel = \"custom/mine\"", server.url));
    let other = at_home(&project, &["run", "--model", "custom/x", "Hello"], &[]);
    assert!(other.code == 2 && other.err.contains("custom"), "{other:?}");
    assert_eq!(shown(&project, &["--model", "offline"], &[])("base_url")["value"], Value::Null);
    let key = ["--model", "custom/x", "--base-url", "http://me:secret@host/v1"];
    assert_eq!(shown(&project, &key, &[])("base_url")["value"], "http://host/v1");
}

#[test]
fn the_store_and_the_list_of_models_may_be_configured_for_every_command() {
    let project = project();
    write(&project, USER, "store = \"kept/\"\nmodels = \"list.toml\"\n[serve]\nmax_runs = 7");
    write(&project, "home/.config/loopwright/list.toml", "[\"acme/big\"]\ncontext_window = 32_768");
    let vars = [("LOOPWRIGHT_STORE", "")];
    assert_eq!(
        at_home(&project, &["run", "--model", "offline", "--session", "s", "Hello"], &vars).code,
        0
    );
    assert!(
        project.path().join("home/.config/loopwright/kept").is_dir(),
        "a path begins where the file is"
    );
    assert!(at_home(&project, &["sessions", "list"], &vars).out.starts_with("s "));
    assert!(at_home(&project, &["models", "acme"], &[]).out.contains("acme/big"));
    assert_eq!(shown(&project, &[], &[])("serve.max_runs")["value"], 7);
    assert_eq!(shown(&project, &[], &[])("store")["variable"], "LOOPWRIGHT_STORE");
}

/// C117: an unknown setting or an invalid value is an error before anything starts. The error names
/// the file and line or the variable, and suggests the setting that was meant.
#[test]
fn an_invalid_setting_is_an_error_with_file_and_line() {
    let project = project();
    for (path, text, says) in [
        (
            USER,
            "max_turn = 3",
            "loopwright.toml:1: there is no setting `max_turn`; did you mean `max_turns`?",
        ),
        (
            USER,
            "\nguard = \"yes\"",
            "loopwright.toml:2: `guard` must be true or false, and not this string.",
        ),
        (
            USER,
            "max_session_cost = 0",
            "loopwright.toml:1: `max_session_cost` must be a number greater than 0",
        ),
        (USER, "model = [", "loopwright.toml:1: invalid TOML"),
        (
            "loopwright.toml",
            "thinkin = \"low\"",
            "loopwright.toml:1: there is no setting `thinkin`; did you mean `thinking`?",
        ),
        (
            "loopwright.toml",
            "model = \"a/b\"",
            "loopwright.toml:1: a project's file may not set `model`",
        ),
        (
            "loopwright.toml",
            "guard = false",
            "loopwright.toml:1: a project's file may switch `guard` on but not off",
        ),
        (
            "loopwright.toml",
            "approve = \"all\"",
            "loopwright.toml:1: a project's file may not set `approve`",
        ),
    ] {
        write(&project, path, text);
        for args in
            [&["run", "--model", "offline", "Hello"][..], &["config"], &["--model", "offline"]]
        {
            let exit = at_home(&project, args, &[]);
            assert!(
                exit.code == 2 && exit.err.contains(says) && exit.out.is_empty(),
                "{args:?}: {exit:?}"
            );
        }
        assert_eq!(
            at_home(&project, &["run", "--no-config", "--model", "offline", "Hello"], &[]).code,
            0
        );
        fs::remove_file(project.path().join(path)).unwrap();
    }
    let exit = at_home(
        &project,
        &["run", "--model", "offline", "Hello"],
        &[("LOOPWRIGHT_THINKING", "hard")],
    );
    assert!(
        exit.code == 2
            && exit.err.contains("LOOPWRIGHT_THINKING is `hard`; it must be one of: off"),
        "{exit:?}"
    );
    let vars = [("LOOPWRIGHT_MODLE", "x"), ("LOOPWRIGHT_SEED", "1")];
    let exit = at_home(&project, &["run", "-q", "--model", "offline", "Hello"], &vars);
    let says = "The environment variable LOOPWRIGHT_MODLE is unknown and has no effect; \
                did you mean LOOPWRIGHT_MODEL?\n";
    assert_eq!((exit.code, exit.err.as_str()), (0, says));
    let exit = at_home(&project, &["config"], &[("LOOPWRIGHT_CONFIG", "nowhere.toml")]);
    assert!(exit.code == 2 && exit.err.contains("nowhere.toml cannot be read"), "{exit:?}");
}

/// The project's file is in the working directory. A link that leads out of it is not read.
#[test]
fn a_project_is_where_the_tools_work() {
    let (project, outside) = (project(), tempfile::tempdir().unwrap());
    write(&project, "loopwright.toml", "max_turns = 3");
    let root = project.path().display().to_string();
    assert_eq!(shown(&outside, &["--root", &root], &[])("max_turns")["value"], 3);
    assert_eq!(shown(&outside, &[], &[])("max_turns")["value"], 50);
    std::os::unix::fs::symlink(
        project.path().join("loopwright.toml"),
        outside.path().join("loopwright.toml"),
    )
    .unwrap();
    let exit = BIN.run(&outside, &["run", "--model", "offline", "Hello"]);
    assert!(exit.code == 2 && exit.err.contains("leads out of the workspace"), "{exit:?}");
    let own = BIN.run(&project, &["run", "--session", "s", "--model", "offline", "Hello"]);
    assert_eq!(own.code, 0, "{own:?}");

    // The user's file may set everything, even if it lies in the working directory.
    write(&project, USER, "approve = \"all\"");
    let there = project.path().join("home/.config/loopwright").display().to_string();
    assert_eq!(shown(&project, &["--root", &there], &[])("approve")["value"], json!(["all"]));
}
