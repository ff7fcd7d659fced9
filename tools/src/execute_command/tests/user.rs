//! The tests of the confinement and of its limits, run as an ordinary user.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

/// A user who is removed when dropped.
struct User(String);

impl User {
    fn create() -> Self {
        let name = format!("loopwright{}", std::process::id());
        let created = Command::new("useradd").args(["--no-create-home", &name]).output().unwrap();
        assert!(created.status.success(), "{created:?}");
        User(name)
    }

    /// Runs tests of this binary, which was copied to `binary`.
    fn run_tests(&self, binary: &Path, arguments: &[&str]) {
        let binary = binary.display().to_string();
        self.run(&[&[binary.as_str()][..], arguments].concat());
    }

    /// Runs a program that runs tests.
    fn run(&self, words: &[&str]) {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={0}", self.0), &format!("--regid={0}", self.0)]);
        command.arg("--init-groups").args(words);
        let done = command.env("HOME", "/nonexistent").current_dir("/").output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success() && !out.contains("running 0 tests"), "{out}\n{err}");
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = Command::new("userdel").arg(&self.0).output();
    }
}

/// The tests that run first, because other tests fail for a user who has reached a limit of
/// processes.
const BOMBS: [&str; 2] = ["a_fork_bomb_is_killed", "too_many_processes_are_killed"];

/// A script that runs the tests of protected files where the kernel refuses namespaces: in a user
/// namespace that allows no others and grants no rights. `$0` is the binary.
const WITHOUT_NAMESPACES: &str = "exec unshare --user --map-root-user sh -c '
    echo 0 >/proc/sys/user/max_user_namespaces && echo 0 >/proc/sys/user/max_mnt_namespaces &&
    exec setpriv --inh-caps=-all --bounding-set=-all \"$0\" tests::protected' \"$0\"";

#[test]
fn commands_of_an_ordinary_user_are_confined_too() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tested: this is no root, and so the other tests test it");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let binary = dir.path().join("tests");
    // A separate process copies it: a binary that this process writes cannot be executed while
    // another thread starts a process.
    let mut copy = Command::new("cp");
    copy.arg(std::env::current_exe().unwrap()).arg(&binary);
    assert!(copy.status().unwrap().success());
    fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
    let user = User::create();
    let [one, two] = BOMBS;
    let files = ["tests::confined", "tests::protected", "tests::limits", "process::"];
    user.run_tests(&binary, &[&files[..], &["--skip", one, "--skip", two]].concat());
    user.run_tests(&binary, &[one, two, "--test-threads", "1"]);
    user.run(&["sh", "-c", WITHOUT_NAMESPACES, &binary.display().to_string()]);
}
