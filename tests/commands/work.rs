//! Real work in a copy of this repository: a session finds a function, changes it, compiles it,
//! corrects the error that the compiler reports, and runs the test.

use std::fs;
use std::path::Path;

use loopwright_tools::Commands;
use serde_json::json;

use crate::session::{Session, ok};

const MANIFEST: &str =
    "[package]\nname = \"flock\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
const LIB: &str = r#"//! Counts sheep.

/// How many sheep there are on a meadow, on average.
pub fn sheep_per_meadow(sheep: &[u32]) -> u32 {
    sheep.iter().sum::<u32>() / 2
}

#[cfg(test)]
mod tests {
    #[test]
    fn three_meadows() {
        assert_eq!(super::sheep_per_meadow(&[1, 2, 6]), 3);
    }
}
"#;

/// Copies a directory, without build artefacts and history.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let target = to.join(&name);
        match entry.file_type().unwrap() {
            kind if kind.is_dir() && name != "target" && name != ".git" => {
                copy(&entry.path(), &target)
            }
            kind if kind.is_file() => drop(fs::copy(entry.path(), target).unwrap()),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_finds_changes_compiles_corrects_and_tests() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("copy");
    copy(env!("CARGO_MANIFEST_DIR").as_ref(), &root);
    fs::create_dir_all(root.join("flock/src")).unwrap();
    fs::write(root.join("flock/Cargo.toml"), MANIFEST).unwrap();
    fs::write(root.join("flock/src/lib.rs"), LIB).unwrap();

    let mut session = Session::new(&root, Commands::new(), false).await;
    let file = "flock/src/lib.rs";
    let run = |command: &str| {
        ("execute_command", json!({ "command": command, "cwd": "flock", "timeout": 120 }))
    };
    let edit = |old: &str, new: &str| {
        ("edit_file", json!({ "path": file, "old_string": old, "new_string": new }))
    };
    let results = session
        .run_calls(&[
            ("search_files", json!({ "pattern": r"^pub fn sheep_per_meadow\(" })),
            ("read_file", json!({ "path": file })),
            run("cargo test --offline"),
            edit("/ 2", "/ sheep.len()"),
            run("cargo check --offline"),
            edit("/ sheep.len()", "/ sheep.len() as u32"),
            run("cargo check --offline"),
            run("cargo test --offline"),
        ])
        .await;
    let [found, read, failed, _, wrong, _, right, tested] = &results[..] else {
        panic!("{results:?}")
    };
    assert!(ok(found).contains("flock/src/lib.rs:4:pub fn sheep_per_meadow("), "{}", found.text());
    assert!(ok(read).contains("     4\tpub fn sheep_per_meadow"), "{}", read.text());
    assert!(
        ok(failed).starts_with("Exit code 101.")
            && failed.text().contains("three_meadows ... FAILED")
    );
    assert!(ok(wrong).starts_with("Exit code 101."), "{}", wrong.text());
    assert!(wrong.text().contains("cannot divide `u32` by `usize`"), "{}", wrong.text());
    assert!(ok(right).starts_with("Exit code 0."), "{}", right.text());
    assert!(
        ok(tested).starts_with("Exit code 0.") && tested.text().contains("1 passed; 0 failed"),
        "{}",
        tested.text()
    );

    let approved: Vec<&str> = session.approved.iter().map(|name| &**name).collect();
    let run = "execute_command";
    let edit = "edit_file";
    assert_eq!(
        approved,
        [run, edit, run, edit, run, run],
        "reading needs no approval, everything else does"
    );
    assert!(session.streamed().contains("Compiling flock"), "output is streamed");
    assert!(session.model.refused().is_empty());
    assert!(fs::read_to_string(root.join(file)).unwrap().contains("/ sheep.len() as u32"));
}
