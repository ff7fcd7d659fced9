//! Output that is too long to be shown.

use std::io::Write;

use super::*;
use crate::read_file;

#[tokio::test]
async fn long_output_loses_its_middle_and_the_whole_can_be_read() {
    let place = Place::new();
    let (text, details) = place.call(json!({ "command": "seq 1 20000" })).await.unwrap();
    assert!(
        text.starts_with("Exit code 0.\n1\n2\n") && text.ends_with("\n19999\n20000\n"),
        "{text}"
    );
    assert!(text.len() < SHOWN + 300);
    let path = details["output_file"].as_str().unwrap();
    let left_out = 108_894 - SHOWN;
    assert!(
        text.contains(&format!(
            "[… {left_out} of 108894 bytes are left out here; all of it is in `{path}` …]"
        )),
        "{text}"
    );
    let read = read_file(Workspace::open(&place.root()).unwrap());
    let asked = json!({ "path": path, "offset": 12_000, "limit": 1 });
    let output = read.call(&asked, ToolContext::detached()).await.unwrap();
    assert!(
        matches!(&output.content[..], [Content::Text { text }] if text.contains("12000\t12000")),
        "{output:?}"
    );
    assert_eq!(
        fs::read_to_string(place.root().join(".loopwright/output/.gitignore")).unwrap(),
        "*\n"
    );
    // A command that turns the place into a way out gains nothing.
    let told = place.run("rm -r .loopwright && ln -s .. .loopwright && seq 1 20000").await;
    assert!(
        told.contains("it could not be kept: ") && told.contains("leads out of the workspace"),
        "{told}"
    );
}

/// The file is the tools' own, and its number comes again: nobody has to read it first.
#[tokio::test]
async fn kept_output_is_not_under_the_guard() {
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
    for _ in 0..KEPT_CALLS {
        assert!(call().await.is_some());
    }
}

/// A file that an earlier answer names keeps what it has, whoever wrote it; the oldest go.
#[tokio::test]
async fn what_is_kept_is_not_written_over() {
    let place = Place::new();
    let kept = place.root().join(KEPT);
    let (_, details) = place.call(json!({ "command": "seq 1 20000" })).await.unwrap();
    let first = details["output_file"].as_str().unwrap().to_owned();
    // Another process, or the same session after a restart.
    let workspace = Workspace::open(&place.root()).unwrap();
    let again = Place {
        outer: place.outer,
        tool: Box::new(execute_command(workspace.clone(), Commands::new())),
    };
    let (_, details) = again.call(json!({ "command": "seq 2 20000" })).await.unwrap();
    let second = details["output_file"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    for (path, begins) in [(&first, "1\n"), (&second, "2\n")] {
        assert!(fs::read_to_string(again.root().join(path)).unwrap().starts_with(begins), "{path}");
    }
    let most = Most { of_series: 3, of_all: 8, bytes: 1 << 30 };
    let add = |series: &str| {
        workspace.add_numbered(KEPT, series, |file| file.write_all(b"x"), most).unwrap()
    };
    let names = || {
        let names = fs::read_dir(&kept)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(".txt")).collect();
        names.sort();
        names
    };
    fs::write(kept.join("mine.txt"), "").unwrap();
    for n in 1..=5 {
        assert_eq!(add("a"), format!("{KEPT}/a-{n}.txt"));
    }
    let (first, second) = (&first[KEPT.len() + 1..], &second[KEPT.len() + 1..]);
    assert_eq!(names(), ["a-3.txt", "a-4.txt", "a-5.txt", first, second, "mine.txt"]);
    for series in ["a-5", "b", "c", "d", "e", "f", "g"] {
        add(series);
    }
    let left = names();
    assert_eq!(left.len(), 8 + 1, "{left:?}");
    assert!(!left.iter().any(|name| name == first || name == second), "{left:?}");
    assert!(left.contains(&"a-5.txt".into()) && left.contains(&"mine.txt".into()), "{left:?}");
    let few = Most { bytes: 2, ..most };
    workspace.add_numbered(KEPT, "a", |file| file.write_all(b"xx"), few).unwrap();
    assert_eq!(names(), ["a-6.txt", "mine.txt"]);
}

/// How `seq 1 LAST` goes.
fn numbers(last: u32) -> Vec<u8> {
    (1..=last).flat_map(|n| format!("{n}\n").into_bytes()).collect()
}

#[tokio::test]
async fn much_more_than_is_in_memory_is_kept_whole() {
    let place = Place::new();
    let (text, details) =
        place.call(json!({ "command": "seq 1 4300000", "timeout": 60 })).await.unwrap();
    assert!(text.ends_with("\n4299999\n4300000\n") && text.len() < SHOWN + 300, "{}", text.len());
    let whole = fs::read(place.root().join(details["output_file"].as_str().unwrap())).unwrap();
    assert!(whole.len() > 32_000_000 && whole == numbers(4_300_000), "{} bytes", whole.len());
    assert_eq!(
        (&details["output_bytes"], &details["output_file_left_out"]),
        (&json!(whole.len()), &json!(0))
    );
    assert!(text.contains("all of it is in `"), "{}", &text[SHOWN / 2..]);
}

#[tokio::test]
async fn what_is_over_the_bound_is_cut_and_told() {
    let place = Place::with(Commands::new().max_output(100_000));
    let (text, details) = place.call(json!({ "command": "seq 1 40000" })).await.unwrap();
    let all = numbers(40_000);
    let lost = all.len() - 100_000;
    assert!(text.contains(&format!(
        "` has all of it but {lost} bytes in the middle, which were too many to keep"
    )));
    assert_eq!(details["output_file_left_out"], json!(lost));
    let kept = fs::read(place.root().join(details["output_file"].as_str().unwrap())).unwrap();
    let word = format!("\n[… {lost} bytes were left out here …]\n");
    assert!(kept == [&all[..50_000], word.as_bytes(), &all[all.len() - 50_000..]].concat());
}

/// What is written while it runs is not in the directory that it reads, or it would read its own
/// words for ever.
#[tokio::test]
async fn a_command_does_not_read_what_it_prints() {
    let place = Place::new();
    fs::write(place.root().join("much"), "word\n".repeat(100_000)).unwrap();
    let (text, details) = place
        .call(json!({ "command": "grep -r word . ; ls -A .loopwright/output" }))
        .await
        .unwrap();
    assert!(text.ends_with("much:word\n.gitignore\n"), "{text}");
    assert_eq!(details["output_file_left_out"], json!(0));
    // It may do away with the directory: there is another one afterwards.
    let (text, details) =
        place.call(json!({ "command": "seq 1 20000; rm -r .loopwright" })).await.unwrap();
    assert!(text.contains("all of it is in"), "{text}");
    let kept = fs::read(place.root().join(details["output_file"].as_str().unwrap())).unwrap();
    assert!(kept == numbers(20_000));
}
