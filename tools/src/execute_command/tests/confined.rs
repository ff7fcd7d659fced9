//! Tests of the confinement of commands.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::symlink;

use super::*;

#[tokio::test]
async fn it_runs_in_a_directory_of_the_workspace_and_in_no_other() {
    let fixture = Fixture::new();
    symlink("sub", fixture.root().join("inner")).unwrap();
    symlink("..", fixture.root().join("up")).unwrap();
    let root = fixture.root().canonicalize().unwrap().display().to_string();
    for (cwd, wanted) in [
        ("", &*root),
        (".", &root),
        (&root, &root),
        ("sub", &format!("{root}/sub")),
        ("inner", &format!("{root}/sub")),
    ] {
        let (text, _) = fixture.call(json!({ "command": "/bin/pwd", "cwd": cwd })).await.unwrap();
        assert_eq!(text, format!("Exit code 0.\n{wanted}\n"), "{cwd}");
    }
    for cwd in ["..", "up", "sub/../..", "/", "/tmp", "up/root"] {
        let why = fixture.call(json!({ "command": "pwd", "cwd": cwd })).await.unwrap_err();
        assert!(why.contains("leads out of the workspace"), "{cwd}: {why}");
    }
    let why = fixture.call(json!({ "command": "pwd", "cwd": "nowhere" })).await.unwrap_err();
    assert!(why.starts_with("`nowhere` does not exist in the workspace"), "{why}");
}

#[tokio::test]
async fn writes_fail_outside_the_workspace_and_succeed_inside() {
    for (name, fixture) in confinements() {
        check_writes(name, &fixture).await;
    }
}

async fn check_writes(name: &str, fixture: &Fixture) {
    let out = fixture.outer.path().display().to_string();
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
        "ls .. | grep secret",
        "cp ../secret mine",
        ": > /etc/loopwright-test",
        "echo x > /proc/sys/kernel/hostname",
        "mount -t tmpfs none sub",
        "chroot . true",
        // With bubblewrap, this process is the command's own.
        if name == "Landlock" { "cat /proc/1/environ" } else { "cat /proc/2147483647/environ" },
    ] {
        let attempt = attempt
            .replace("..", &if attempt.starts_with("mkdir") { out.clone() } else { "..".into() });
        let text = fixture.run(&attempt).await;
        assert!(
            !text.starts_with("Exit code 0.") && !text.contains("the secret"),
            "{name}: {attempt}: {text}"
        );
    }
    assert_eq!(fs::read_to_string(fixture.outer.path().join("secret")).unwrap(), "the secret");
    let mut names: Vec<_> =
        fs::read_dir(fixture.outer.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["root", "secret"]);
    let inside = "echo y > f && mkdir -p d/e && mv f d/e/g && ln d/e/g h && rm h && cat d/e/g \
                  && chmod 600 d/e/g && echo t > $TMPDIR/t && cat $TMPDIR/t && echo h > ~/h \
                  && cat ~/h";
    assert_eq!(fixture.run(inside).await, "Exit code 0.\ny\nt\nh\n");
    assert_eq!(
        fixture.run("cat $TMPDIR/t").await,
        "Exit code 0.\nt\n",
        "temporary files last as long as the tool"
    );
}

/// Returns each confinement that works here, with its name.
fn confinements() -> Vec<(&'static str, Fixture)> {
    let mut all = vec![("Landlock", Fixture::confined_by(Confinement::landlock().unwrap()))];
    match Confinement::bubblewrap() {
        Ok(confinement) => all.push(("bubblewrap", Fixture::confined_by(confinement))),
        Err(why) => eprintln!("not tested: {why}"),
    }
    all
}

/// The programs come from util-linux.
#[tokio::test]
async fn other_processes_cannot_be_limited_or_slowed_and_nothing_outlives_the_command() {
    let (pid, limits) = (std::process::id(), fs::read_to_string("/proc/self/limits").unwrap());
    for (name, fixture) in confinements() {
        for attempt in [
            format!("prlimit --pid {pid} --fsize=0:0"),
            format!("prlimit --pid {pid} --nofile=0:0 --nproc=0:0"),
            format!("renice -n 19 -p {pid}"),
            "renice -n 19 -u $(id -u)".into(),
            format!("taskset -p 1 {pid}"),
            format!("chrt --idle --pid 0 {pid}"),
            format!("ionice -c 3 -p {pid}"),
            "ionice -c 3 -u $(id -u)".into(),
            "ipcmk --shmem 10".into(),
            "ipcmk --semaphore 1".into(),
            "ipcmk --queue".into(),
            "unshare --user true".into(),
            "unshare --map-root-user --mount true".into(),
            "setarch --addr-no-randomize true".into(),
        ] {
            let text = fixture.run(&attempt).await;
            assert!(!text.starts_with("Exit code 0."), "{name}: {attempt}: {text}");
            assert!(!text.contains("not found"), "{name}: {attempt}: {text}");
        }
        let own = "prlimit --nofile=64:64 sh -c 'ulimit -n' && nice -n 5 true && taskset 1 true";
        assert_eq!(fixture.run(own).await, "Exit code 0.\n64\n", "{name}");
    }
    assert_eq!(fs::read_to_string("/proc/self/limits").unwrap(), limits);
}

/// Perl makes the calls by number, because few systems have programs for them. The exit code is the
/// error.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn keyrings_and_attributes_of_files_are_out_of_reach() {
    for (name, fixture) in confinements() {
        for (call, error) in [
            ("250, 0, -3, 1", libc::EPERM), // keyctl: the id of the session's keyring
            ("248, $_, $_, $_, 1, -3", libc::EPERM), // add_key
            ("249, $_, $_, 0, -3", libc::EPERM), // request_key
            ("188, $_, $_, $_, 1, 0", libc::EOPNOTSUPP), // setxattr
            ("197, $_, $_", libc::EOPNOTSUPP), // removexattr
        ] {
            let perl = format!("$_ = \"user.f\"; syscall({call}) < 0 and exit($! + 0)");
            let command = format!("touch user.f; perl -e '{perl}'");
            let text = fixture.run(&command).await;
            assert!(text.starts_with(&format!("Exit code {error}.")), "{name}: {call}: {text}");
        }
    }
}

/// This includes the thread that starts a command: it is in the same domain, and shares the memory
/// of this process.
#[tokio::test]
async fn this_process_cannot_be_traced_or_signalled() {
    let fixture = Fixture::new();
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
        let text = fixture.run(&format!("{attempt} && echo IT WORKED")).await;
        assert!(!text.contains("IT WORKED") && !text.contains("CARGO_"), "{attempt}: {text}");
    }
    let text = fixture
        .run("cat /proc/[0-9]*/task/*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^CARGO_MANIFEST")
        .await;
    assert_eq!(text, "Exit code 1. It printed nothing.");
    // Only root can empty the bounding set, and only root needs it to be empty.
    let sets = if rustix::process::geteuid().is_root() { "Cap" } else { "Cap(Inh|Prm|Eff|Amb)" };
    let caps = fixture
        .run(&format!("grep -E '^({sets}|NoNew)' /proc/self/status | cut -f2 | sort -u"))
        .await;
    assert_eq!(caps, "Exit code 0.\n0000000000000000\n1\n");
}

#[tokio::test]
async fn its_environment_is_a_short_list() {
    let text = Fixture::new().run("env | cut -d= -f1 | sort").await;
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
    let names: Vec<&str> = text.lines().skip(1).collect();
    assert!(fixed.iter().all(|name| names.contains(name)), "{text}");
    assert!(names.iter().all(|name| fixed.contains(name) || may.contains(name)), "{text}");
    let more = Fixture::with(Commands::new().env("CARGO_MANIFEST_DIR"))
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
    assert!(!Fixture::new().run(&command).await.contains("extra"));
    let text = Fixture::with(Commands::new().readable(extra.path())).run(&command).await;
    assert!(text.contains("extra") && text.contains("Permission denied"), "{text}");
    assert_eq!(
        Fixture::with(Commands::new().writable(extra.path())).run(&command).await,
        "Exit code 0.\nextra\n"
    );
}

/// Tests TCP and UDP, which bash supports without other programs.
#[tokio::test]
async fn the_network_is_accessible_only_if_enabled() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let tcp_port = tcp.local_addr().unwrap().port();
    let udp_port = udp.local_addr().unwrap().port();
    let command = format!(
        "bash -c 'echo t > /dev/tcp/127.0.0.1/{tcp_port}; echo t=$?'; \
         bash -c 'echo u > /dev/udp/127.0.0.1/{udp_port}; echo u=$?'"
    );
    let text = Fixture::new().run(&command).await;
    assert!(
        text.contains("t=1") && text.contains("u=1") && text.contains("Permission denied"),
        "{text}"
    );
    assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err());
    let text = Fixture::with(Commands::new().network()).run(&command).await;
    assert_eq!(text, "Exit code 0.\nt=0\nu=0\n");
    assert!(tcp.accept().is_ok() && udp.recv(&mut [0; 8]).is_ok());
}

#[tokio::test]
async fn without_confinement_it_refuses_or_states_so() {
    let fixture =
        Fixture::confined_by(Confinement::Unavailable("this kernel has no Landlock".into()));
    let why = fixture.call(json!({ "command": "echo ran > f" })).await.unwrap_err();
    assert!(
        why.starts_with("commands cannot be confined on this system, so none is run: this kernel"),
        "{why}"
    );
    assert!(
        why.contains("--unconfined")
            && why.contains("bubblewrap")
            && !fixture.root().join("f").exists()
    );
    assert!(fixture.tool.spec().description.contains("It does not work on this system"));
    let fixture = Fixture::with(Commands::new().unconfined());
    let mark = marker("free");
    let command = format!(
        "cat ../secret; setsid sh -c ': >started; sleep 1000; : {mark}' & \
         until [ -e started ]; do :; done"
    );
    let (text, details) = fixture.call(json!({ "command": command })).await.unwrap();
    assert!(
        text.contains("the secret") && details["confinement"]["by"].is_null(),
        "{text} {details}"
    );
    assert!(fixture.tool.spec().description.contains("Commands are not confined"));
    assert_eq!(alive(&mark), 0, "a process with its environment or parents intact is killed");
}

/// Only runs where bubblewrap is installed and may create namespaces.
#[tokio::test]
async fn bubblewrap_confines_where_landlock_cannot() {
    let confinement = match Confinement::bubblewrap() {
        Ok(confinement) => confinement,
        Err(why) => return eprintln!("not tested: {why}"),
    };
    let fixture = Fixture::confined_by(confinement);
    let mark = marker("wrapped");
    assert!(fixture.tool.spec().description.contains("confined by bubblewrap"));
    let text = fixture
        .run(
            "cat ../secret; echo x > ../new; echo x > /etc/new; \
             cat /proc/*/environ | tr '\\0' '\\n' | grep ^CARGO_MAN",
        )
        .await;
    assert!(!text.contains("the secret") && !text.contains("CARGO_MAN"), "{text}");
    assert_eq!(fs::read_dir(fixture.outer.path()).unwrap().count(), 2, "{text}");
    assert!(!Path::new("/etc/new").exists());
    let (text, _) = fixture
        .call(json!({ "command": "echo y > f; cat f ../f; pwd; echo t > $TMPDIR/t", "cwd": "sub" }))
        .await
        .unwrap();
    assert!(
        text.contains("\ny\n")
            && text.ends_with("root/sub\n")
            && fixture.root().join("sub/f").exists(),
        "{text}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    fixture
        .run(&format!(
            "bash -c 'echo t > /dev/tcp/127.0.0.1/{}'",
            listener.local_addr().unwrap().port()
        ))
        .await;
    assert!(listener.accept().is_err());
    let daemon = format!(
        "(setsid env -i sh -c ': >started; sleep 1000; : {mark}' <&- >&- 2>&- &) ; \
         until [ -e started ]; do :; done; kill -9 $$"
    );
    fixture.run(&daemon).await;
    wait_until_alive(&mark, |count| count == 0); // the kernel kills them with their namespace
    // Files that only root may read are absent even for root; links next to them are present.
    let text = fixture
        .run("cat /etc/shadow && echo IT WORKED; cat /etc/passwd >/dev/null && echo public")
        .await;
    assert!(!text.contains("IT WORKED") && text.ends_with("public\n"), "{text}");
    let links = fs::read_dir("/etc")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_symlink());
    for link in links.filter(|link| link.exists()) {
        let text = fixture.run(&format!("readlink '{}'", link.display())).await;
        assert_eq!(text, format!("Exit code 0.\n{}\n", fs::read_link(&link).unwrap().display()));
    }
}

/// The description states what an older kernel does not cover.
#[tokio::test]
async fn gaps_of_the_confinement_are_stated() {
    let fixture = Fixture::confined_by(Confinement::old_landlock());
    let (_, details) = fixture.call(json!({ "command": "true" })).await.unwrap();
    for gap in
        ["signals reach other processes of the same user", "modes and times of the user's files"]
    {
        let gaps = details["confinement"]["not_covered"].as_array().unwrap();
        assert!(gaps.iter().any(|known| known.as_str().unwrap().contains(gap)), "{details}");
        assert!(fixture.tool.spec().description.contains(gap));
    }
}

/// No kernel has a Landlock rule for this yet. When this test fails, the sentence is obsolete.
#[tokio::test]
async fn the_mode_of_a_file_outside_can_be_changed_which_is_stated() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run("chmod 640 ../secret").await, "Exit code 0. It printed nothing.");
    assert!(
        fixture
            .tool
            .spec()
            .description
            .contains("modes and times of the user's files outside can be changed")
    );
    assert!(!fixture.run("chmod 777 ../secret; cat ../secret").await.contains("the secret"));
}
