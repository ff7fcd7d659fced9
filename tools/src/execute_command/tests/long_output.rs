//! Tests of output that is too long for the model.

use std::io::Write;

use super::*;
use crate::read_file::read_file;

#[tokio::test]
async fn long_output_loses_its_middle_and_the_whole_can_be_read() {
    let fixture = Fixture::new();
    let (text, details) = fixture.call(json!({ "command": "seq 1 20000" })).await.unwrap();
    assert!(
        text.starts_with("Exit code 0.\n1\n2\n") && text.ends_with("\n19999\n20000\n"),
        "{text}"
    );
    assert!(text.len() < MAX_SHOWN_BYTES + 300);
    let path = details["output_file"].as_str().unwrap();
    let left_out = 108_894 - MAX_SHOWN_BYTES;
    assert!(
        text.contains(&format!(
            "[… {left_out} of 108894 bytes are left out here; all of it is in `{path}` …]"
        )),
        "{text}"
    );
    let read = read_file(Workspace::open(&fixture.root()).unwrap());
    let arguments = json!({ "path": path, "offset": 12_000, "limit": 1 });
    let output = read.call(&arguments, ToolContext::detached()).await.unwrap();
    assert!(
        matches!(&output.content[..], [Content::Text { text }] if text.contains("12000\t12000")),
        "{output:?}"
    );
    assert_eq!(
        fs::read_to_string(fixture.root().join(".loopwright/output/.gitignore")).unwrap(),
        "*\n"
    );
    // A command gets no access by replacing the directory with a link that leads out.
    let text = fixture.run("rm -r .loopwright && ln -s .. .loopwright && seq 1 20000").await;
    assert!(
        text.contains("it could not be saved: ") && text.contains("leads out of the workspace"),
        "{text}"
    );
}

/// The tools manage these files and reuse their numbers, so they need not be read first.
#[tokio::test]
async fn saved_output_is_not_guarded() {
    let outer = outer();
    let workspace = Workspace::open(&outer.path().join("root")).unwrap().guarded();
    let read = read_file(workspace.clone());
    let tool = execute_command(workspace, Commands::new());
    let call = async || {
        let output =
            tool.call(&json!({ "command": "seq 1 20000" }), ToolContext::detached()).await.unwrap();
        output.details.unwrap()["output_file"].as_str().map(str::to_owned)
    };
    let path = call().await.unwrap();
    read.call(&json!({ "path": path }), ToolContext::detached()).await.unwrap();
    fs::write(outer.path().join("root").join(&path), "theirs").unwrap();
    for _ in 0..MAX_OUTPUT_FILES_PER_SESSION {
        assert!(call().await.is_some());
    }
}

/// Files named in earlier results are never overwritten. The oldest files are removed.
#[tokio::test]
async fn saved_output_is_not_overwritten() {
    let fixture = Fixture::new();
    let output_dir = fixture.root().join(OUTPUT_DIR);
    let (_, details) = fixture.call(json!({ "command": "seq 1 20000" })).await.unwrap();
    let first = details["output_file"].as_str().unwrap().to_owned();
    // Stands for another process, or for the same session after a restart.
    let workspace = Workspace::open(&fixture.root()).unwrap();
    let restarted = Fixture {
        outer: fixture.outer,
        tool: Box::new(execute_command(workspace.clone(), Commands::new())),
    };
    let (_, details) = restarted.call(json!({ "command": "seq 2 20000" })).await.unwrap();
    let second = details["output_file"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    for (path, begins) in [(&first, "1\n"), (&second, "2\n")] {
        assert!(
            fs::read_to_string(restarted.root().join(path)).unwrap().starts_with(begins),
            "{path}"
        );
    }
    let retention = Retention { max_files_per_series: 3, max_files: 8, max_bytes: 1 << 30 };
    let add = |series: &str| {
        workspace.add_numbered(OUTPUT_DIR, series, |file| file.write_all(b"x"), retention).unwrap()
    };
    let names = || {
        let names = fs::read_dir(&output_dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(".txt")).collect();
        names.sort();
        names
    };
    fs::write(output_dir.join("mine.txt"), "").unwrap();
    for n in 1..=5 {
        assert_eq!(add("a"), format!("{OUTPUT_DIR}/a-{n}.txt"));
    }
    let (first, second) = (&first[OUTPUT_DIR.len() + 1..], &second[OUTPUT_DIR.len() + 1..]);
    assert_eq!(names(), ["a-3.txt", "a-4.txt", "a-5.txt", first, second, "mine.txt"]);
    for series in ["a-5", "b", "c", "d", "e", "f", "g"] {
        add(series);
    }
    let left = names();
    assert_eq!(left.len(), 8 + 1, "{left:?}");
    assert!(!left.iter().any(|name| name == first || name == second), "{left:?}");
    assert!(left.contains(&"a-5.txt".into()) && left.contains(&"mine.txt".into()), "{left:?}");
    let few = Retention { max_bytes: 2, ..retention };
    workspace.add_numbered(OUTPUT_DIR, "a", |file| file.write_all(b"xx"), few).unwrap();
    assert_eq!(names(), ["a-6.txt", "mine.txt"]);
}

/// Returns the output of `seq 1 LAST`.
fn numbers(last: u32) -> Vec<u8> {
    (1..=last).flat_map(|n| format!("{n}\n").into_bytes()).collect()
}

#[tokio::test]
async fn output_larger_than_the_memory_limit_is_saved_whole() {
    let fixture = Fixture::new();
    let (text, details) =
        fixture.call(json!({ "command": "seq 1 4300000", "timeout": 60 })).await.unwrap();
    assert!(
        text.ends_with("\n4299999\n4300000\n") && text.len() < MAX_SHOWN_BYTES + 300,
        "{}",
        text.len()
    );
    let whole = fs::read(fixture.root().join(details["output_file"].as_str().unwrap())).unwrap();
    assert!(whole.len() > 32_000_000 && whole == numbers(4_300_000), "{} bytes", whole.len());
    assert_eq!(
        (&details["output_bytes"], &details["output_file_left_out"]),
        (&json!(whole.len()), &json!(0))
    );
    assert!(text.contains("all of it is in `"), "{}", &text[MAX_SHOWN_BYTES / 2..]);
}

#[tokio::test]
async fn output_over_the_limit_is_cut_and_reported() {
    let fixture = Fixture::with(Commands::new().max_output(100_000));
    let (text, details) = fixture.call(json!({ "command": "seq 1 40000" })).await.unwrap();
    let all = numbers(40_000);
    let lost = all.len() - 100_000;
    assert!(text.contains(&format!("` has all of it except {lost} bytes in the middle")));
    assert_eq!(details["output_file_left_out"], json!(lost));
    let saved = fs::read(fixture.root().join(details["output_file"].as_str().unwrap())).unwrap();
    let note = format!("\n[… {lost} bytes were left out here …]\n");
    assert!(saved == [&all[..50_000], note.as_bytes(), &all[all.len() - 50_000..]].concat());
}

/// While the command runs, it cannot read the directory of its output. Otherwise it would read its
/// own output forever.
#[tokio::test]
async fn a_command_does_not_read_its_own_output() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join("much"), "word\n".repeat(100_000)).unwrap();
    let (text, details) = fixture
        .call(json!({ "command": "grep -r word . ; ls -A .loopwright/output" }))
        .await
        .unwrap();
    assert!(text.ends_with("much:word\n.gitignore\n"), "{text}");
    assert_eq!(details["output_file_left_out"], json!(0));
    // A command may remove the directory, which is then created again.
    let (text, details) =
        fixture.call(json!({ "command": "seq 1 20000; rm -r .loopwright" })).await.unwrap();
    assert!(text.contains("all of it is in"), "{text}");
    let saved = fs::read(fixture.root().join(details["output_file"].as_str().unwrap())).unwrap();
    assert!(saved == numbers(20_000));
}
