//! Tests of the limits on processes, memory and disk, with control groups and without.

use super::*;

/// Returns a tool with these settings for each way of enforcing limits that works here.
fn tools(commands: &Commands) -> Vec<(&'static str, Fixture)> {
    let tool = |cgroups: bool| {
        let outer = outer();
        // With a protected file, commands get mounts. An ordinary user's commands then get a user
        // namespace, in which the kernel counts their processes separately.
        fs::write(outer.path().join("root/.envrc"), "").unwrap();
        let workspace = Workspace::open(&outer.path().join("root")).unwrap();
        let shell = match cgroups {
            true => Shell::new(&workspace, commands.clone()),
            false => Shell::without_cgroups(&workspace, commands.clone()),
        };
        Fixture { outer, tool: Box::new(tool(State { workspace, shell })) }
    };
    vec![("control groups, if they can be created", tool(true)), ("measured", tool(false))]
}

/// Returns a fork bomb that would start about 2 to the power of `depth + 1` processes. It ends by
/// itself, so that the machine survives if this test fails.
fn bomb(start: &str, depth: u32) -> String {
    format!(
        "printf '%s\\n' 'if [ $1 -gt 0 ]; then' \
         'for n in 1 2; do {start} sh ./bomb.sh $(($1-1)) & done; fi; sleep 60' >bomb.sh; \
         sh ./bomb.sh {depth}; wait"
    )
}

/// Also runs as root, to whom the kernel's limit for users does not apply. `--test commands`, which
/// runs alone on the machine, checks the time.
#[tokio::test]
async fn a_fork_bomb_is_killed() {
    // Other tests run at the same time, and the kernel does not limit the second.
    for ((name, fixture), depth) in tools(&Commands::new()).into_iter().zip([12, 10]) {
        for start in ["", "setsid"] {
            let began = Instant::now();
            let result =
                fixture.call(json!({ "command": bomb(start, depth), "timeout": 60 })).await;
            eprintln!("{:>10.2?}  {name} {start}", began.elapsed());
            let why = result.unwrap_err();
            assert!(why.contains("too many processes at the same time"), "{name} {start}: {why}");
        }
    }
}

/// A script that doubles a string until the shell is killed.
const GROW: &str = "x=0123456789; while :; do x=$x$x; done";

#[tokio::test]
async fn a_command_that_uses_too_much_memory_is_killed_and_the_limit_reported() {
    let limit = 256 << 20;
    for (name, fixture) in tools(&Commands::new().max_memory(limit)) {
        for command in [GROW.to_owned(), format!("sh -c '{GROW}'; echo survived; sleep 60")] {
            let result = fixture.call(json!({ "command": command, "timeout": 60 })).await;
            let why = result.unwrap_err();
            assert!(why.contains("had more than 256 MiB of memory"), "{name}: {why}");
        }
        let text = fixture.run("echo works").await;
        assert_eq!(text, "Exit code 0.\nworks\n", "{name}");
    }
}

#[tokio::test]
async fn a_command_that_fills_the_disk_is_killed_and_the_limit_reported() {
    let fixture = Fixture::with(Commands::new().max_disk(64 << 20));
    // Many files that are all below the limit.
    let command = "rmdir sub; i=0; while :; do i=$((i+1)); head -c 8388608 /dev/zero >$i; done";
    let why = fixture.call(json!({ "command": command, "timeout": 60 })).await.unwrap_err();
    assert!(why.contains("the free space of a disk shrank by more than 64 MiB"), "{why}");
    fixture.run("rm *").await;
    // The kernel limits a single file, too.
    let call = json!({ "command": "cat /dev/zero >large", "timeout": 60 });
    assert!(!fixture.call(call).await.is_ok_and(|(text, _)| text.starts_with("Exit code 0.")));
    let size = fs::metadata(fixture.root().join("large")).unwrap().len();
    assert!(size <= 64 << 20, "{size}");
}

#[tokio::test]
async fn limits_are_stated_and_control_groups_are_removed() {
    let commands = Commands::new().max_memory(3 << 30).max_disk(5 << 30).max_processes(99);
    for ((_, fixture), cgroups) in tools(&commands).into_iter().zip([true, false]) {
        let description = &fixture.tool.spec().description;
        let wanted = "more than 99 processes, 3.0 GiB of memory or 5.0 GiB of new data on disk";
        assert!(description.contains(wanted), "{description}");
        assert!(cgroups || description.contains("(this is a test)"), "{description}");
        let (text, details) =
            fixture.call(json!({ "command": "cat /proc/self/cgroup" })).await.unwrap();
        let limits = &details["confinement"]["limits"];
        assert_eq!((&limits["processes"], &limits["memory"]), (&json!(99), &json!(3_u64 << 30)));
        let name = format!("loopwright-{}-", std::process::id());
        assert_eq!(text.contains(&name), limits["control_group"].as_bool().unwrap(), "{text}");
        let paths = text.lines().filter_map(|line| line.rsplit_once(':'));
        for (_, path) in paths.filter(|(_, path)| path.contains(&name)) {
            let left = fs::read_dir("/sys/fs/cgroup")
                .unwrap()
                .filter_map(Result::ok)
                .map(|dir| dir.path().join(path.trim_start_matches('/')));
            assert_eq!(left.filter(|dir| dir.exists()).count(), 0, "{path}");
        }
    }
}

/// Refusals of the kernel while the processes are being killed do not count as limits reached.
#[tokio::test]
async fn a_process_in_the_background_that_starts_others_reaches_no_limit() {
    for (name, fixture) in tools(&Commands::new()) {
        for _ in 0..20 {
            let start = "for i in 1 2 3 4 5 6 7 8; do (while :; do /bin/true; done) & done";
            let text = fixture.run(start).await;
            assert!(text.starts_with("Exit code 0."), "{name}: {text}");
        }
    }
}
