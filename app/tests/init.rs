//! The crate that `loopwright init` creates, built and tested offline. It compiles loopwright with
//! other features than the workspace, so plain `cargo test` leaves it out.

use std::env;
use std::path::Path;
use std::process::Command;

/// C326: The crate builds and passes its tests without a network, and without warnings.
#[test]
fn the_crate_builds_and_passes_its_tests_offline() {
    let dir = tempfile::tempdir().unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut init = Command::new(env!("CARGO_BIN_EXE_loopwright"));
    init.args(["init", "my-agent", "--checkout"]).arg(checkout).current_dir(&dir);
    init.env("HOME", dir.path()).env_remove("XDG_CONFIG_HOME");
    assert!(init.status().unwrap().success());

    let created = dir.path().join("my-agent");
    let target = env::var_os("CARGO_TARGET_DIR").map_or(checkout.join("target"), Into::into);
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--offline", "--target-dir"]).arg(&target).current_dir(&created);
    // What cargo tells this test about its own crate makes build scripts of dependencies run again,
    // here and for the next command that has the same target directory.
    let of_this_crate =
        |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|p| name.starts_with(p));
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_crate)) {
        test.env_remove(name);
    }
    let test = test.output().unwrap();
    let (passed, log) =
        (String::from_utf8_lossy(&test.stdout), String::from_utf8_lossy(&test.stderr));
    assert!(test.status.success(), "{passed}\n{log}");
    assert!(passed.contains("the_loop_passes_the_suite ... ok"), "{passed}");
    assert!(!log.contains("warning"), "{log}");
    // The tests have built the binary too.
    let mut run = Command::new(target.join("debug/my-agent"));
    run.args(["run", "--model", "offline", "Call fahrenheit with celsius=100"]);
    let run = run.env("HOME", dir.path()).current_dir(&created).output().unwrap();
    let answer = String::from_utf8_lossy(&run.stdout);
    assert!(answer.contains("212.0 °F"), "{answer}\n{}", String::from_utf8_lossy(&run.stderr));
}
