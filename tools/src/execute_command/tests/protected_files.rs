//! Tests of protected files that are restored, and of all protected files in each confinement.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;
use crate::protected_paths;

const OLD: &str = "the user's\n";

/// Returns a tool in a workspace with these files, which restores them.
fn with_files(files: &[&str]) -> Fixture {
    let fixture = Fixture::confined_by(Confinement::old_landlock());
    for file in files {
        fixture.write(file, OLD);
    }
    fixture
}

impl Fixture {
    fn write(&self, file: &str, content: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn content(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).unwrap_or_else(|e| format!("{file}: {e}"))
    }

    /// Runs a command. Returns what was undone, and what has changed.
    async fn changes(&self, command: &str) -> (Value, Value) {
        let call = json!({ "command": command, "timeout": 500 });
        let (text, details) = self.call(call).await.unwrap();
        let (undone, changed) =
            (&details["protected_files_undone"], &details["protected_files_changed"]);
        let is_reported = *undone != json!([]) || *changed != json!([]);
        assert_eq!(text.contains("Tell the user."), is_reported, "{text}");
        (undone.clone(), changed.clone())
    }
}

/// Returns the confinements of this system: one for each way to protect files.
fn confinements() -> Vec<(&'static str, Confinement)> {
    let mut all = vec![("copies", Confinement::old_landlock())];
    match Confinement::landlock() {
        Ok(landlock) if landlock.makes_read_only() => all.push(("mounts", landlock)),
        Ok(landlock) => all.push(("copies", landlock)),
        Err(why) => eprintln!("not tested: {why}"),
    }
    match Confinement::bubblewrap() {
        Ok(bubblewrap) => all.push(("bubblewrap", bubblewrap)),
        Err(why) => eprintln!("not tested: {why}"),
    }
    all
}

/// Returns a path for each protected file or pattern that is not above another one.
fn one_of_each() -> Vec<String> {
    let all: Vec<String> = protected_patterns().map(|path| path.replace('*', "x")).collect();
    let is_dir = |path: &String| all.iter().any(|other| other.starts_with(&format!("{path}/")));
    let files = all.iter().filter(|path| !is_dir(path)).cloned();
    let unlisted = [".git/description", ".git/modules/a/b/config", ".Rprofile", ".GHCi"];
    let mut files: Vec<String> = files.chain(unlisted.map(str::to_owned)).collect();
    files.sort_by(|one, other| Path::new(one).cmp(Path::new(other)));
    files.dedup();
    files
}

/// Returns the paths that commands may not change.
fn protected_patterns() -> impl Iterator<Item = &'static str> {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<_> = Workspace::open(dir.path()).unwrap().protected_patterns().collect();
    all.into_iter()
}

/// C432, C435: No change of an existing protected file lasts: it is prevented or undone.
#[tokio::test]
async fn no_change_of_any_protected_file_lasts() {
    let files = one_of_each();
    assert!(files.len() > 150 && protected_paths().count() > 150);
    for (name, confinement) in confinements() {
        let fixture = Fixture::confined_by(confinement);
        fixture.write(".git/modules/a/b/HEAD", "ref: refs/heads/main\n");
        let list: Vec<String> = files.iter().map(|file| format!("'{file}'")).collect();
        let list = list.join(" ");
        for attempt in [
            format!("for p in {list}; do echo x >>\"$p\"; done"),
            format!("for p in {list}; do echo x >\"$p\"; done"),
            format!("rm -rf {list}"),
            format!("mkdir moved; mv --backup=numbered -t moved {list}"),
        ] {
            files.iter().for_each(|file| fixture.write(file, OLD));
            let call = json!({ "command": format!("({attempt}) 2>/dev/null"), "timeout": 500 });
            let (_, details) = fixture.call(call).await.unwrap();
            let attempt = &attempt[..20];
            for file in &files {
                assert_eq!(fixture.content(file), OLD, "{name}: {attempt}: {file}");
            }
            assert_eq!(details["protected_files_changed"], json!([]), "{name}: {attempt}");
            let undone = if name == "copies" { files.clone() } else { Vec::new() };
            assert_eq!(details["protected_files_undone"], json!(undone), "{name}: {attempt}");
        }
    }
}

/// C436: Each protected file that did not exist is reported.
#[tokio::test]
async fn each_new_protected_file_is_reported() {
    let files: Vec<String> = one_of_each()
        .into_iter()
        .filter(|file| ![".git/description", ".git/modules/a/b/config"].contains(&file.as_str()))
        .collect();
    for (name, confinement) in confinements() {
        let fixture = Fixture::confined_by(confinement);
        let dirs = files.iter().filter_map(|file| Path::new(file).parent()).map(Path::display);
        let dirs: Vec<String> = dirs.map(|dir| format!("'./{dir}'")).collect();
        let list: Vec<String> = files.iter().map(|file| format!("'{file}'")).collect();
        let command = format!(
            "mkdir -p {} && for p in {}; do echo x >\"$p\" || exit 1; done",
            dirs.join(" "),
            list.join(" ")
        );
        let call = json!({ "command": command, "timeout": 500 });
        let (text, details) = fixture.call(call).await.unwrap();
        assert!(text.starts_with("Exit code 0."), "{name}: {text}");
        let changed: Vec<String> =
            serde_json::from_value(details["protected_files_changed"].clone()).unwrap();
        let is_reported =
            |file: &&String| changed.iter().any(|path| Path::new(file.as_str()).starts_with(path));
        let silent: Vec<&String> = files.iter().filter(|file| !is_reported(file)).collect();
        assert!(silent.is_empty(), "{name}: {silent:?}");
        assert_eq!(details["protected_files_undone"], json!([]), "{name}");
    }
}

/// C435: Changes of protected files are undone after the command, and reported.
#[tokio::test]
async fn changes_are_put_back_and_the_changed_versions_kept() {
    let files = [".git/config", ".git/hooks/old", ".vscode/tasks.json", ".envrc"];
    let fixture = with_files(&files);
    let text = fixture.run("echo x >.git/config; echo y >.git/hooks/new").await;
    assert_eq!(
        text,
        "Exit code 0. It changed files that the user's own tools run: `.git/config`, \
         `.git/hooks/new`. These changes were undone. What it wrote is in `.loopwright/undone`. \
         Tell the user. It printed nothing."
    );
    assert_eq!(fixture.content(".loopwright/undone/1-git-config"), "x\n");
    assert_eq!(fixture.content(".loopwright/undone/2-git-hooks-new"), "y\n");
    assert_eq!(fixture.content(".loopwright/undone/.gitignore"), "*\n");
    for (command, undone) in [
        ("mv .git moved; mkdir .git", json!([".git"])),
        (
            "mv .git .vscode/g",
            json!([".git", ".git/config", ".git/hooks", ".git/hooks/old", ".vscode/g"]),
        ),
        ("chmod 4711 .envrc || chmod 711 .envrc", json!([".envrc"])),
        ("rm .envrc; ln -s /etc/passwd .envrc", json!([".envrc"])),
        ("rm .envrc; mkfifo .envrc", json!([".envrc"])),
        ("rm .envrc; mkdir .envrc; touch .envrc/x; chmod 0 .envrc", json!([".envrc"])),
        ("ln .envrc other; echo x >other", json!([".envrc"])),
        ("chmod 0 .vscode; chmod 0 .", json!([".vscode"])),
        ("rm -r .vscode; ln -s . .vscode", json!([".vscode", ".vscode/tasks.json"])),
        ("touch .envrc", json!([])),
    ] {
        let (found, changed) = fixture.changes(command).await;
        assert_eq!(found, undone, "{command}");
        assert_eq!(changed, json!([]), "{command}");
        for file in files {
            assert_eq!(fixture.content(file), OLD, "{command}");
        }
        let mode = fs::metadata(fixture.root().join(".envrc")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7111, 0, "{command}");
    }
}

/// C435: Obstacles do not prevent protected files from being restored.
#[tokio::test]
async fn obstacles_do_not_keep_a_file_changed() {
    for obstacle in
        ["touch .loopwright", "mkdir -p .loopwright; chmod 0 .loopwright", "ln -s /tmp .loopwright"]
    {
        let fixture = with_files(&[".envrc"]);
        let (undone, _) = fixture.changes(&format!("{obstacle}; echo x >.envrc")).await;
        assert_eq!((undone, fixture.content(".envrc")), (json!([".envrc"]), OLD.to_owned()));
    }
}

/// C435: Concurrent commands share one baseline, so the changes of one command never become the
/// baseline of another.
#[tokio::test]
async fn commands_at_once_share_what_is_put_back() {
    let fixture = with_files(&[".envrc"]);
    let first = "echo evil >.envrc; touch ready; until [ -e go ]; do :; done; echo more >.envrc";
    let (first, ()) = tokio::join!(fixture.call(json!({ "command": first })), async {
        while !fixture.root().join("ready").exists() {
            tokio::task::yield_now().await;
        }
        let (undone, _) = fixture.changes("cat .envrc").await;
        assert_eq!(undone, json!([".envrc"]));
        assert_eq!(fixture.content(".envrc"), OLD);
        fs::write(fixture.root().join("go"), "").unwrap();
    });
    assert_eq!(first.unwrap().1["protected_files_undone"], json!([".envrc"]));
    assert_eq!(fixture.content(".envrc"), OLD);
}

/// C435: Files that are too large to be copied are only reported.
#[tokio::test]
async fn a_file_that_is_too_large_is_reported_only() {
    let fixture = with_files(&[".vscode/tasks.json"]);
    fixture.write(".vscode/large", &"x".repeat(5 << 20));
    let change = "echo x >.vscode/large; echo x >.vscode/tasks.json";
    let (undone, changed) = fixture.changes(change).await;
    assert_eq!((undone, changed), (json!([".vscode/tasks.json"]), json!([".vscode"])));
    assert_eq!(fixture.content(".vscode/large"), "x\n");
}

/// C435: Deeply nested directories are not copied, which would take minutes, but reported.
#[tokio::test]
async fn directories_that_are_nested_deep_are_reported_only() {
    let fixture = with_files(&[".vscode/tasks.json"]);
    let nest = "cd .vscode; for n in $(seq 3000); do mkdir d; cd d; done 2>/dev/null; echo made";
    let (undone, _) = fixture.changes(nest).await;
    assert_eq!(undone, json!([".vscode/d"]), "what is new is moved as a whole");
    let nest = "mkdir deep; cd deep; for n in $(seq 3000); do mkdir d; cd d; done; echo made";
    fixture.run(nest).await;
    fs::rename(fixture.root().join("deep"), fixture.root().join(".vscode/deep")).unwrap();
    let (undone, changed) = fixture.changes("rm .vscode/tasks.json; echo x > .vscode/new").await;
    assert!(undone.to_string().contains(".vscode/tasks.json"), "{undone} {changed}");
    assert_eq!(changed, json!([".vscode"]));
    assert_eq!(fixture.content(".vscode/tasks.json"), OLD);
}

/// C437: A directory that a command turns into a repository is reported, and so is a change of its
/// configuration.
#[tokio::test]
async fn a_planted_repository_is_reported() {
    for (name, confinement) in confinements() {
        let fixture = Fixture::confined_by(confinement);
        for (command, found) in [
            ("mkdir -p a/b/objects; touch a/b/refs a/b/HEAD", json!(["a/b"])),
            ("mkdir -p a/b/objects/12; echo x >a/b/refs", json!([])),
            ("echo x >a/b/config", json!(["a/b"])),
            ("mv a c", json!(["c/b"])),
            ("rm -r c", json!([])),
        ] {
            let (text, details) = fixture.call(json!({ "command": command })).await.unwrap();
            assert_eq!(details["repositories_changed"], found, "{name}: {command}");
            assert_eq!(text.contains("Tell the user."), found != json!([]), "{name}: {text}");
        }
    }
    let fixture = Fixture::confined_by(Confinement::old_landlock());
    symlink("x", fixture.root().join("HEAD")).unwrap();
    let text = fixture.run("mkdir objects refs").await;
    assert!(text.contains("another configuration in it: `.`. Tell the user."), "{text}");
}

/// C434: Git works in a repository whose other files are protected.
#[tokio::test]
async fn git_writes_what_it_must() {
    if Command::new("git").arg("--version").output().is_err() {
        return eprintln!("not tested: there is no git");
    }
    for (name, confinement) in confinements() {
        let fixture = Fixture::confined_by(confinement);
        let steps = [
            "echo 1 >f; git add f; git commit -qm one; git branch side",
            "echo 2 >f; git commit -qam two; git tag -a -m t t1; git stash list",
            "echo 3 >f; git stash; git stash pop; git commit -qam three",
            "git switch -q side; echo 4 >f; git commit -qam four; git reset -q --soft HEAD~; \
             git commit -qm four; git reflog; git gc -q; git repack -adq; git pack-refs --all",
            "git worktree add -q ../w main; git -C ../w status; git worktree remove ../w",
            "git notes add -m note; git bisect start; git bisect reset; git fetch -q . main",
            "git rebase main && exit 1; echo 5 >f; git add f; \
             GIT_EDITOR=true git rebase --continue; git log --oneline | wc -l",
            "git cherry-pick main~ && exit 1; git cherry-pick --abort; git merge -q main; git fsck",
        ];
        let setup = "git init -q -b main . && mkdir w && git config user.name n && \
                     git config user.email e";
        let done = Command::new("sh").arg("-c").arg(setup).current_dir(fixture.root()).output();
        assert!(done.unwrap().status.success());
        for step in steps {
            let step = step.replace("../w", "./w/t");
            let (text, details) =
                fixture.call(json!({ "command": format!("set -e; {step}") })).await.unwrap();
            assert!(text.starts_with("Exit code 0."), "{name}: {step}: {text}");
            assert_eq!(details["protected_files_changed"], json!([]), "{name}: {step}: {text}");
            assert_eq!(details["protected_files_undone"], json!([]), "{name}: {step}: {text}");
        }
        for refused in ["git config core.fsmonitor x", "git config --unset user.name"] {
            let before = fixture.content(".git/config");
            let _ = fixture.run(refused).await;
            assert_eq!(fixture.content(".git/config"), before, "{name}: {refused}");
        }
        let todo = "mkdir -p .git/rebase-merge; echo 'exec x' >.git/rebase-merge/git-rebase-todo";
        let (_, details) = fixture.call(json!({ "command": todo })).await.unwrap();
        let changed = json!([".git/rebase-merge/git-rebase-todo"]);
        assert_eq!(details["protected_files_changed"], changed, "{name}");
    }
}
