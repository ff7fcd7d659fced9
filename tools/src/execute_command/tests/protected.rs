//! Tests of protected files, which the user's own tools run.

use std::os::unix::fs::symlink;

use super::*;

/// Returns a tool in a repository, with this confinement.
fn repository(confinement: Confinement, open: &[&str]) -> Fixture {
    let outer = outer();
    let root = outer.path().join("root");
    for dir in [".git/hooks", ".git/modules/sub/hooks", ".git/objects", ".vscode"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in [".git/config", ".git/modules/sub/config", ".git/hooks/old", ".vscode/tasks.json"] {
        fs::write(root.join(file), "the user's\n").unwrap();
    }
    fs::write(root.join(".envrc"), "the user's\n").unwrap();
    let workspace = Workspace::open(&root).unwrap();
    let workspace = open.iter().fold(workspace, |workspace, path| workspace.unprotected(path));
    let shell = Shell::with_confinement(&workspace, Commands::new(), confinement);
    Fixture { outer, tool: Box::new(tool(State { workspace, shell })) }
}

/// Returns the confinements that can make files read-only and work here, with their names.
fn strict() -> Vec<(&'static str, Confinement)> {
    let mut all = Vec::new();
    match Confinement::landlock() {
        Ok(landlock) if landlock.makes_read_only() => all.push(("Landlock", landlock)),
        _ => eprintln!("not tested: Landlock with mounts, which the kernel refuses"),
    }
    match Confinement::bubblewrap() {
        Ok(bubblewrap) => all.push(("bubblewrap", bubblewrap)),
        Err(why) => eprintln!("not tested: {why}"),
    }
    all
}

/// C432: A command cannot change, move or replace protected files that exist in the workspace, even
/// as an ordinary user on a machine without bubblewrap.
#[tokio::test]
async fn commands_cannot_change_what_the_users_tools_run() {
    for (name, confinement) in strict() {
        let fixture = repository(confinement, &[]);
        for attempt in [
            "echo x >.git/config",
            "echo x >>.git/hooks/old",
            "echo x >.git/hooks/pre-commit",
            "rm .git/hooks/old",
            "rm -r .git/hooks",
            "mv .git/hooks .git/others",
            "mv .git .moved",
            "mv .git/modules .git/others",
            "mv .git/modules/sub .git/modules/other",
            "echo x >.git/new && mv .git/new .git/config",
            "echo x >new && mv new .git/config",
            "ln -f sub/../.envrc other && echo x >other",
            "echo x >.git/modules/sub/config",
            "touch .git/modules/sub/hooks/x",
            "echo x >.envrc",
            "rm .envrc",
            "mv .envrc e",
            "echo x >e && mv e .envrc",
            "ln -sf /dev/null .envrc",
            "touch .vscode/settings.json",
            "mv .vscode v",
            "chmod +x .envrc",
            "cd .vscode && touch tasks.json",
            "ln -s .git g && echo x >g/config",
            "umount .envrc || mount -o remount,rw .envrc",
        ] {
            let text = fixture.run(attempt).await;
            assert!(!text.starts_with("Exit code 0."), "{name}: {attempt}: {text}");
            assert!(!text.contains("files changed"), "{name}: {attempt}: {text}");
        }
        // In a protected working directory, and in one above a protected directory.
        for (cwd, attempt) in [(".git", "echo x >config"), (".git/hooks", "echo x >new")] {
            let call = json!({ "command": attempt, "cwd": cwd });
            let (text, _) = fixture.call(call).await.unwrap();
            assert!(!text.starts_with("Exit code 0."), "{name}: {attempt} in {cwd}: {text}");
        }
        for file in [".git/config", ".git/hooks/old", ".envrc", ".vscode/tasks.json"] {
            let content = fs::read_to_string(fixture.root().join(file)).unwrap();
            assert_eq!(content, "the user's\n", "{name}: {file}");
        }
        let free = "cat .envrc && echo x >.git/objects/x && echo y >.git/index.lock && \
                    mv .git/index.lock .git/index && mkdir src && echo z >src/z && \
                    ln src/z src/y && mv src lib && cat lib/y";
        assert_eq!(fixture.run(free).await, "Exit code 0.\nthe user's\nz\n", "{name}");
        let description = &fixture.tool.spec().description;
        assert!(description.contains("`.git/hooks`, `.envrc`, `.vscode`"), "{description}");
    }
}

/// A command's mounts affect neither this process nor the system.
#[tokio::test]
async fn the_user_can_change_them_while_a_command_runs() {
    for (name, confinement) in strict() {
        let fixture = repository(confinement, &[]);
        let path = fixture.root().join(".git/config");
        let command = "until [ -e go ]; do :; done; cat .git/config";
        let call = json!({ "command": command });
        let (result, ()) = tokio::join!(fixture.call(call), async {
            fs::write(&path, "the user's new one\n").unwrap();
            fs::write(fixture.root().join("go"), "").unwrap();
        });
        assert_eq!(result.unwrap().0, "Exit code 0.\nthe user's new one\n", "{name}");
    }
}

#[tokio::test]
async fn the_user_can_lift_the_protection() {
    for (name, confinement) in strict() {
        let change = "echo x >.git/hooks/new && echo x >.vscode/tasks.json";
        let some = repository(confinement.clone(), &[".vscode", ".git/hooks"]);
        assert_eq!(some.run(change).await, "Exit code 0. It printed nothing.", "{name}");
        assert!(!some.run("echo x >.git/config").await.starts_with("Exit code 0."), "{name}");
        let all = repository(confinement, &["."]);
        let change = format!("{change} && echo x >.git/config && mv .git moved");
        assert_eq!(all.run(&change).await, "Exit code 0. It printed nothing.", "{name}");
        assert!(!all.tool.spec().description.contains("`.envrc`"), "{name}");
    }
}

/// Covers files that cannot be made read-only or do not exist yet.
#[tokio::test]
async fn a_change_that_cannot_be_prevented_is_reported() {
    for (_, confinement) in strict() {
        let fixture = repository(confinement, &[]);
        symlink("../secret", fixture.root().join(".npmrc")).unwrap();
        let changes = [
            ("mkdir .cargo && echo x >.cargo/config.toml", ".cargo"),
            ("ln -sf other .npmrc", ".npmrc"),
            ("echo .. >.git/commondir", ".git/commondir"),
        ];
        for (change, file) in changes {
            let (text, details) = fixture.call(json!({ "command": change })).await.unwrap();
            let wanted = format!(
                "Exit code 0. While it ran, files changed that the user's own tools run: \
                 `{file}`. Tell the user. It printed nothing."
            );
            assert_eq!(text, wanted);
            assert_eq!(details["protected_files_changed"], json!([file]));
        }
        assert_eq!(fixture.run("true").await, "Exit code 0. It printed nothing.");
    }
}

/// In a worktree `.git` is a file.
#[tokio::test]
async fn a_file_that_names_the_repository_is_protected() {
    for (name, confinement) in strict() {
        let fixture = repository(confinement, &[]);
        fs::remove_dir_all(fixture.root().join(".git")).unwrap();
        fs::write(fixture.root().join(".git"), "gitdir: ../elsewhere\n").unwrap();
        for attempt in ["echo x >.git", "rm .git", "mv .git g"] {
            let text = fixture.run(attempt).await;
            assert!(!text.starts_with("Exit code 0."), "{name}: {attempt}: {text}");
        }
    }
}
