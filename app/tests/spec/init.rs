//! `loopwright init`: the crate that it creates, and the names that it refuses. `tests/init.rs`
//! builds the crate.

use std::fs;
use std::path::Path;

use loopwright_test_support::process::project;

use crate::BIN;

/// Returns the file of a created crate.
fn read(directory: &Path, path: &str) -> String {
    fs::read_to_string(directory.join(path)).unwrap()
}

/// C325: The crate has the given name, depends on the published crates, and is not in the way of
/// another workspace.
#[test]
fn the_crate_has_its_name_and_depends_on_the_published_crates() {
    let dir = project();
    let exit = BIN.run(&dir, &["init", "my-agent"]);
    assert_eq!((exit.code, &*exit.out), (0, ""), "{}", exit.err);
    assert!(exit.err.contains("cd my-agent\n    cargo test\n    cargo run"), "{}", exit.err);
    let created = dir.path().join("my-agent");
    let manifest = read(&created, "Cargo.toml");
    let version = env!("CARGO_PKG_VERSION");
    assert!(manifest.contains("name = \"my-agent\""), "{manifest}");
    assert!(manifest.contains(&format!("loopwright-cli = {{ version = \"{version}\" }}")));
    assert!(!manifest.contains("[workspace]") && !created.join("Cargo.lock").exists());
    assert!(
        read(&created, "src/main.rs")
            .contains("my_agent::assistant(setup.model()?, \"notes.txt\")")
    );
    assert!(read(&created, "tests/suite.rs").contains("use my_agent::{AssistantLoop, assistant};"));
    for file in ["README.md", ".gitignore", "src/lib.rs"] {
        let text = read(&created, file);
        assert!(!text.contains("starter") && !text.contains("$SOURCE"), "{file}: {text}");
    }
}

/// C325: In a checkout, or with its path, the crate depends on it, with its versions.
#[test]
fn with_a_checkout_the_crate_depends_on_it() {
    let dir = project();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let exit = BIN.run(&dir, &["init", "a", "--checkout", checkout.to_str().unwrap()]);
    assert_eq!(exit.code, 0, "{}", exit.err);
    let created = dir.path().join("a");
    let manifest = read(&created, "Cargo.toml");
    let facade = checkout.canonicalize().unwrap().join("facade");
    assert!(manifest.contains(&format!("path = {facade:?}")), "{manifest}");
    assert!(manifest.ends_with("\n[workspace]\n"));
    assert_eq!(read(&created, "Cargo.lock"), read(checkout, "Cargo.lock"));
    let target = checkout.canonicalize().unwrap().join("target");
    assert!(read(&created, ".cargo/config.toml").contains(&format!("target-dir = {target:?}")));

    // A directory in a copy of the checkout's root.
    fs::copy(checkout.join("Cargo.lock"), dir.path().join("Cargo.lock")).unwrap();
    fs::copy(checkout.join("Cargo.toml"), dir.path().join("Cargo.toml")).unwrap();
    let exit = BIN.run(&dir, &["init", "b"]);
    assert_eq!(exit.code, 0, "{}", exit.err);
    let root = dir.path().canonicalize().unwrap();
    assert!(read(&dir.path().join("b"), "Cargo.toml").contains(&format!("{:?}", root.join("app"))));
}

/// C325: Invalid names of crates, directories that exist, and directories that are not a checkout
/// are refused, and nothing is changed.
#[test]
fn what_cannot_be_created_is_refused_and_nothing_changes() {
    let dir = project();
    fs::create_dir(dir.path().join("taken")).unwrap();
    fs::write(dir.path().join("taken/notes.txt"), "kept").unwrap();
    for (arguments, error) in [
        (&["init", "1st"][..], "`1st` cannot be the name"),
        (&["init", "My-Agent"], "cannot be the name"),
        (&["init", "async"], "cannot be named `async`"),
        (&["init", "loopwright-cli"], "cannot be named `loopwright-cli`"),
        (&["init", "taken"], "taken exists already; nothing was changed"),
        (&["init", "missing/agent"], "missing/agent cannot be created"),
        (&["init", "agent", "--checkout", "taken"], "taken is no checkout of loopwright"),
        (&["init"], "DIR"),
    ] {
        let exit = BIN.run(&dir, arguments);
        assert_eq!(exit.code, 2, "{arguments:?}");
        assert!(exit.err.contains(error), "{arguments:?}: {}", exit.err);
    }
    assert_eq!(read(dir.path(), "taken/notes.txt"), "kept");
    let mut left: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    left.retain(|name| !name.to_string_lossy().starts_with('.'));
    left.sort();
    assert_eq!(left, ["Cargo.toml", "taken"]);
}
