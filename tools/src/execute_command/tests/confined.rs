//! What commands may reach, and what not.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::symlink;

use super::*;

#[tokio::test]
async fn it_runs_in_a_directory_of_the_workspace_and_in_no_other() {
    let place = Place::new();
    symlink("sub", place.root().join("inner")).unwrap();
    symlink("..", place.root().join("up")).unwrap();
    let root = place.root().canonicalize().unwrap().display().to_string();
    for (cwd, wanted) in [
        ("", &*root),
        (".", &root),
        (&root, &root),
        ("sub", &format!("{root}/sub")),
        ("inner", &format!("{root}/sub")),
    ] {
        let (text, _) = place.call(json!({ "command": "/bin/pwd", "cwd": cwd })).await.unwrap();
        assert_eq!(text, format!("Exit code 0.\n{wanted}\n"), "{cwd}");
    }
    for cwd in ["..", "up", "sub/../..", "/", "/tmp", "up/root"] {
        let why = place.call(json!({ "command": "pwd", "cwd": cwd })).await.unwrap_err();
        assert!(why.contains("leads out of the workspace"), "{cwd}: {why}");
    }
    let why = place.call(json!({ "command": "pwd", "cwd": "nowhere" })).await.unwrap_err();
    assert!(why.starts_with("`nowhere` does not exist in the workspace"), "{why}");
}

#[tokio::test]
async fn a_write_outside_fails_and_one_inside_does_not() {
    let place = Place::new();
    let out = place.outer.path().display().to_string();
    for attempt in [
        "echo x > ../new",
        "echo x > ../secret",
        "mkdir ../new",
        "rm ../secret",
        "mv ../secret .",
        "ln ../secret hard",
        "ln -s .. link && echo x > link/new",
        "ln -s ../secret link2 && echo x > link2",
        "cd sub && ln -s ../.. deep && rm deep/secret",
        "cat ../secret",
        "ls ..",
        "cp ../secret mine",
        ": > /etc/loopwright-test",
        "echo x > /proc/sys/kernel/hostname",
        "mount -t tmpfs none sub",
        "chroot . true",
        "cat /proc/1/environ",
    ] {
        let attempt = attempt
            .replace("..", &if attempt.starts_with("mkdir") { out.clone() } else { "..".into() });
        let told = place.run(&attempt).await;
        assert!(
            !told.starts_with("Exit code 0.") && !told.contains("the secret"),
            "{attempt}: {told}"
        );
    }
    assert_eq!(fs::read_to_string(place.outer.path().join("secret")).unwrap(), "the secret");
    let mut names: Vec<_> =
        fs::read_dir(place.outer.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["root", "secret"]);
    let inside = "echo y > f && mkdir -p d/e && mv f d/e/g && ln d/e/g h && rm h && cat d/e/g && chmod 600 d/e/g \
                  && echo t > $TMPDIR/t && cat $TMPDIR/t && echo h > ~/h && cat ~/h";
    assert_eq!(place.run(inside).await, "Exit code 0.\ny\nt\nh\n");
    assert_eq!(
        place.run("cat $TMPDIR/t").await,
        "Exit code 0.\nt\n",
        "what is temporary lasts as long as the tool"
    );
}

/// Not only the process itself: the thread that starts a command is confined like it, and leads to
/// the same memory.
#[tokio::test]
async fn this_process_cannot_be_looked_into_or_signalled() {
    let place = Place::new();
    for attempt in [
        "cat /proc/$PPID/environ",
        "cat /proc/$PPID/task/*/environ",
        "head -c1 /proc/$PPID/mem",
        "cat /proc/$PPID/maps",
        "readlink /proc/$PPID/fd/1",
        "ls -l /proc/$PPID/cwd/",
        "kill -0 $PPID",
        "kill -TERM $PPID",
    ] {
        let told = place.run(&format!("{attempt} && echo IT WORKED")).await;
        assert!(!told.contains("IT WORKED") && !told.contains("CARGO_"), "{attempt}: {told}");
    }
    let told = place
        .run("cat /proc/[0-9]*/task/*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^CARGO_MANIFEST")
        .await;
    assert_eq!(told, "Exit code 1. It printed nothing.");
    let caps = place.run("grep -E '^(Cap|NoNew)' /proc/self/status | cut -f2 | sort -u").await;
    assert_eq!(caps, "Exit code 0.\n0000000000000000\n1\n");
}

#[tokio::test]
async fn its_environment_is_a_short_list() {
    let told = Place::new().run("env | cut -d= -f1 | sort").await;
    let fixed = [
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LOOPWRIGHT_COMMAND",
        "PAGER",
        "PATH",
        "PWD",
        "TERM",
        "TMPDIR",
    ];
    let may = [
        "CARGO_HOME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "RUSTUP_HOME",
        "TZ",
        "USER",
        "OLDPWD",
        "_",
        "SHLVL",
    ];
    let names: Vec<&str> = told.lines().skip(1).collect();
    assert!(fixed.iter().all(|name| names.contains(name)), "{told}");
    assert!(names.iter().all(|name| fixed.contains(name) || may.contains(name)), "{told}");
    let more = Place::with(Commands::new().env("CARGO_MANIFEST_DIR"))
        .run("echo $CARGO_MANIFEST_DIR")
        .await;
    assert!(more.trim_end().ends_with("tools"), "{more}");
}

#[tokio::test]
async fn more_can_be_made_readable_and_writable() {
    let extra = tempfile::tempdir().unwrap();
    fs::write(extra.path().join("f"), "extra").unwrap();
    let path = extra.path().display();
    let command = format!("cat {path}/f; echo; echo x > {path}/g");
    assert!(!Place::new().run(&command).await.contains("extra"));
    let told = Place::with(Commands::new().readable(extra.path())).run(&command).await;
    assert!(told.contains("extra") && told.contains("Permission denied"), "{told}");
    assert_eq!(
        Place::with(Commands::new().writable(extra.path())).run(&command).await,
        "Exit code 0.\nextra\n"
    );
}

/// TCP and UDP, with bash, which can do both by itself.
#[tokio::test]
async fn the_network_is_reached_only_when_it_is_allowed() {
    let (tcp, udp) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let command = format!(
        "bash -c 'echo t > /dev/tcp/127.0.0.1/{tcp_port}; echo t=$?'; bash -c 'echo u > /dev/udp/127.0.0.1/{udp_port}; echo u=$?'"
    );
    let told = Place::new().run(&command).await;
    assert!(
        told.contains("t=1") && told.contains("u=1") && told.contains("Permission denied"),
        "{told}"
    );
    assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err());
    let told = Place::with(Commands::new().network()).run(&command).await;
    assert_eq!(told, "Exit code 0.\nt=0\nu=0\n");
    assert!(tcp.accept().is_ok() && udp.recv(&mut [0; 8]).is_ok());
}

#[tokio::test]
async fn without_confinement_it_refuses_or_says_so() {
    let place = Place::confined_by(Confinement::Missing("this kernel has no Landlock".into()));
    let why = place.call(json!({ "command": "echo ran > f" })).await.unwrap_err();
    assert!(
        why.starts_with("commands cannot be confined on this system, so none is run: this kernel"),
        "{why}"
    );
    assert!(
        why.contains("--unconfined")
            && why.contains("bubblewrap")
            && !place.root().join("f").exists()
    );
    assert!(place.tool.spec().description.contains("It does not work here"));
    let (place, mark) = (Place::with(Commands::new().unconfined()), marker("free"));
    let command = format!(
        "cat ../secret; setsid sh -c ': >begun; sleep 1000; : {mark}' & until [ -e begun ]; do :; done"
    );
    let (text, details) = place.call(json!({ "command": command })).await.unwrap();
    assert!(
        text.contains("the secret") && details["confinement"]["by"].is_null(),
        "{text} {details}"
    );
    assert!(place.tool.spec().description.contains("Commands are not confined"));
    assert_eq!(alive(&mark), 0, "what keeps its environment or its parents is known even so");
}

/// Where it is installed and may make name spaces; elsewhere there is nothing to see.
#[tokio::test]
async fn bubblewrap_confines_where_landlock_cannot() {
    let confinement = match Confinement::bubblewrap() {
        Ok(confinement) => confinement,
        Err(why) => return eprintln!("not tested: {why}"),
    };
    let (place, mark) = (Place::confined_by(confinement), marker("wrapped"));
    assert!(place.tool.spec().description.contains("confined by bubblewrap"));
    let told = place
        .run(
            "cat ../secret; echo x > ../new; echo x > /etc/new; cat /proc/*/environ | tr '\\0' '\\n' | grep ^CARGO_MAN",
        )
        .await;
    assert!(!told.contains("the secret") && !told.contains("CARGO_MAN"), "{told}");
    assert_eq!(fs::read_dir(place.outer.path()).unwrap().count(), 2, "{told}");
    assert!(!Path::new("/etc/new").exists());
    let (text, _) = place
        .call(json!({ "command": "echo y > f; cat f ../f; pwd; echo t > $TMPDIR/t", "cwd": "sub" }))
        .await
        .unwrap();
    assert!(
        text.contains("\ny\n")
            && text.ends_with("root/sub\n")
            && place.root().join("sub/f").exists(),
        "{text}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    place
        .run(&format!(
            "bash -c 'echo t > /dev/tcp/127.0.0.1/{}'",
            listener.local_addr().unwrap().port()
        ))
        .await;
    assert!(listener.accept().is_err());
    let daemon = format!(
        "(setsid env -i sh -c ': >begun; sleep 1000; : {mark}' <&- >&- 2>&- &) ; until [ -e begun ]; do :; done; kill -9 $$"
    );
    place.run(&daemon).await;
    until_alive(&mark, |count| count == 0); // the kernel ends them with their name space, which takes a moment
    // As root too, what only root may read is not there; links beside it are.
    let told = place
        .run("cat /etc/shadow && echo IT WORKED; cat /etc/passwd >/dev/null && echo public")
        .await;
    assert!(!told.contains("IT WORKED") && told.ends_with("public\n"), "{told}");
    let links = fs::read_dir("/etc")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_symlink());
    for link in links.filter(|link| link.exists()) {
        let told = place.run(&format!("readlink '{}'", link.display())).await;
        assert_eq!(told, format!("Exit code 0.\n{}\n", fs::read_link(&link).unwrap().display()));
    }
}

/// What an older kernel leaves open is said.
#[tokio::test]
async fn what_is_not_covered_is_told() {
    let place = Place::confined_by(Confinement::old_landlock());
    let (_, details) = place.call(json!({ "command": "true" })).await.unwrap();
    for gap in
        ["signals reach other processes of the same user", "modes and times of the user's files"]
    {
        let told = details["confinement"]["not_covered"].as_array().unwrap();
        assert!(told.iter().any(|told| told.as_str().unwrap().contains(gap)), "{details}");
        assert!(place.tool.spec().description.contains(gap));
    }
}

/// Landlock has no rule for it, on any kernel so far. When this test fails, a sentence can go.
#[tokio::test]
async fn the_mode_of_a_file_outside_can_be_changed_which_is_said() {
    let place = Place::new();
    assert_eq!(place.run("chmod 640 ../secret").await, "Exit code 0. It printed nothing.");
    assert!(
        place
            .tool
            .spec()
            .description
            .contains("modes and times of the user's files outside can be changed")
    );
    assert!(!place.run("chmod 777 ../secret; cat ../secret").await.contains("the secret"));
}
