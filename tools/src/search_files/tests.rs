//! Tests of `search_files`, called as by a model.

#![allow(clippy::disallowed_methods, reason = "the test creates its files from outside")]

use std::fs;

use loopwright_core::message::Content;
use serde_json::Value;

use super::*;

async fn search(dir: &tempfile::TempDir, arguments: Value) -> Result<(String, Value), String> {
    let tool = search_files(Workspace::open(dir.path()).unwrap());
    let output = tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
    let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
    Ok((text.clone(), output.details.unwrap()))
}

fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

#[tokio::test]
async fn lines_come_with_path_and_number_in_order() {
    let dir = tree(&[
        ("src/b.rs", b"fn b() {}\n"),
        ("src/a.rs", b"// a\r\nfn a() {}\r\n\r\nfn aa() {}"),
        ("src/a/z.rs", b"fn z() {}\n"),
        ("README", b"fn is a word\n"),
        (".ci/run", b"# fn\n"),
        (".git/HEAD", b"fn\n"),
    ]);
    let (text, details) = search(&dir, json!({ "pattern": r"\bfn\b" })).await.unwrap();
    assert_eq!(
        text,
        ".ci/run:1:# fn\nREADME:1:fn is a word\nsrc/a/z.rs:1:fn z() {}\nsrc/a.rs:2:fn a() {}\n\
         src/a.rs:4:fn aa() {}\nsrc/b.rs:1:fn b() {}\n"
    );
    assert_eq!((&details["total_lines"], &details["total_files"]), (&json!(6), &json!(5)));
    assert_eq!(
        details["matches"][4],
        json!({ "path": "src/a.rs", "line": 4, "text": "fn aa() {}" })
    );
}

#[tokio::test]
async fn a_line_ends_before_its_carriage_return() {
    let dir = tree(&[("f", b"word\r\nword\nword x\r\n\r\n")]);
    assert_eq!(
        search(&dir, json!({ "pattern": "^word$" })).await.unwrap().0,
        "f:1:word\nf:2:word\n"
    );
    assert_eq!(search(&dir, json!({ "pattern": "^$" })).await.unwrap().0, "f:4:\n");
}

#[tokio::test]
async fn path_and_include_narrow_it() {
    let dir = tree(&[
        ("src/a.rs", b"word\n"),
        ("src/a.txt", b"word\n"),
        ("src/in/b.rs", b"word\n"),
        ("c.rs", b"word\n"),
    ]);
    let table = [
        (
            json!({ "pattern": "word", "path": "src" }),
            "src/a.rs:1:word\nsrc/a.txt:1:word\nsrc/in/b.rs:1:word\n",
        ),
        (json!({ "pattern": "word", "path": "src/a.txt" }), "src/a.txt:1:word\n"),
        (
            json!({ "pattern": "word", "path": "src", "include": "*.rs" }),
            "src/a.rs:1:word\nsrc/in/b.rs:1:word\n",
        ),
        (json!({ "pattern": "word", "path": "src", "include": "in/*.rs" }), "src/in/b.rs:1:word\n"),
        (
            json!({ "pattern": "^WORD$", "path": null, "include": "" }),
            "No line in `.` matches `^WORD$`.\n",
        ),
        (json!({ "pattern": "(?i)^WORD$", "include": "c.*" }), "c.rs:1:word\n"),
        (
            json!({ "pattern": "x", "include": "*.py" }),
            "No line in `.` matches `x` in files that match `*.py`.\n",
        ),
    ];
    for (arguments, wanted) in table {
        assert_eq!(search(&dir, arguments.clone()).await.unwrap().0, wanted, "{arguments}");
    }
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_says_why() {
    let dir = tree(&[("f", b"x\n")]);
    let why = search(&dir, json!({ "pattern": "foo(" })).await.unwrap_err();
    assert!(
        why.contains("`foo(` is not usable") && why.contains("put a backslash before them"),
        "{why}"
    );
    let why = search(&dir, json!({ "pattern": r"\w{5000}" })).await.unwrap_err();
    assert!(why.contains("too much memory: use fewer repetitions"), "{why}");
    let why = search(&dir, json!({ "pattern": "a\nb" })).await.unwrap_err();
    assert!(why.contains("line by line"), "{why}");
    assert!(search(&dir, json!({ "pattern": "" })).await.unwrap_err().contains("is empty"));
    assert!(
        search(&dir, json!({ "pattern": "x", "include": "../*" }))
            .await
            .unwrap_err()
            .contains("`..`")
    );
    assert!(
        search(&dir, json!({ "pattern": "x", "path": "gone" }))
            .await
            .unwrap_err()
            .contains("does not exist")
    );
}

#[tokio::test]
async fn binary_and_ignored_files_are_skipped() {
    let mut late = b"word\n".to_vec();
    late.resize(200_000, b'x');
    late.extend(b"\nword\n\0\nword\n");
    let dir = tree(&[
        ("a.bin", b"word\n\0"),
        ("late", &late),
        ("out/f", b"word\n"),
        (".gitignore", b"out\n"),
        ("t", b"word\n"),
    ]);
    let (text, _) = search(&dir, json!({ "pattern": "^word" })).await.unwrap();
    assert_eq!(
        text,
        "late:1:word\nt:1:word\n… 1 file is binary: only the text at its start was searched\n"
    );
    assert_eq!(
        search(&dir, json!({ "pattern": "^word", "path": "out" })).await.unwrap().0,
        "out/f:1:word\n"
    );
}

/// C427: Hostile rules neither end the process nor take more time and memory than an ordinary file.
#[tokio::test]
async fn hostile_ignore_rules_are_skipped() {
    let braces = |levels: usize| format!("{}a{}", "{".repeat(levels), "}".repeat(levels));
    let long = format!("{}\n", "*a".repeat(2_000));
    let many: String = (0..100_000).map(|at| format!("*{at}*b\n")).collect();
    let rules = format!("a.log\n{}\n{}\n{long}b.log\n{many}c.log\n", braces(400), braces(50_000));
    let dir = tree(&[
        ("a.log", b"word\n"),
        ("b.log", b"word\n"),
        ("c.log", b"word\n"),
        (".gitignore", rules.as_bytes()),
    ]);
    let (text, _) = search(&dir, json!({ "pattern": "^word" })).await.unwrap();
    assert!(text.starts_with("b.log:1:word\nc.log:1:word\n"), "{text}");
    let end = format!("{}\n", "# comment".repeat(7_281)); // the limit is in the next rule
    let cut = format!("{}{}*log-but-this-rule-is-cut\n", "b.log\n", &end[..65_521]);
    fs::write(dir.path().join(".gitignore"), cut).unwrap();
    let (text, _) = search(&dir, json!({ "pattern": "^word" })).await.unwrap();
    assert!(text.starts_with("a.log:1:word\nc.log:1:word\n"), "{text}");
}

#[tokio::test]
async fn ignored_paths_are_searched_if_the_search_starts_in_them() {
    let dir = tree(&[
        (".gitignore", b"target/**\nbuild/*\n*.log\n"),
        (".loopwright/output/.gitignore", b"*\n"),
        (".loopwright/output/1.txt", b"word\n"),
        ("target/debug/f", b"word\n"),
        ("build/f", b"word\n"),
        ("logs/a.log", b"word\n"),
        ("b.log/f", b"word\n"),
    ]);
    for (path, wanted) in [
        (".loopwright/output", ".loopwright/output/1.txt:1:word\n"),
        ("target", "target/debug/f:1:word\n"),
        ("target/debug", "target/debug/f:1:word\n"),
        ("build", "build/f:1:word\n"),
        ("b.log", "b.log/f:1:word\n"),
        ("logs/a.log", "logs/a.log:1:word\n"),
        (
            "logs",
            "No line in `logs` matches `word`.\n… not searched: 1 file, ignored by a .gitignore or \
             similar file. To search there, give one as `path`, such as `logs/a.log`\n",
        ),
    ] {
        assert_eq!(
            search(&dir, json!({ "pattern": "word", "path": path })).await.unwrap().0,
            wanted
        );
    }
}

/// Ignored paths are only relevant, and only reported, if no line matches.
#[tokio::test]
async fn ignored_paths_are_reported_if_no_line_matches() {
    let dir = tree(&[
        (".gitignore", b"target\nbuild\n*.log\n"),
        ("target/debug/f", b"word\n"),
        ("build/f", b"word\n"),
        ("a.log", b"word\n"),
        ("sub/b.log", b"word\n"),
        ("sub/c.log", b"word\n"),
        ("f", b"text\n"),
        (".git/HEAD", b"word\n"),
        (".loopwright/output/.gitignore", b"*\n"),
    ]);
    let (text, _) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
    assert_eq!(
        text,
        "No line in `.` matches `word`.\n… not searched: 2 directories and 3 files, ignored by a \
         .gitignore or similar file. To search there, give one as `path`, such as `build`\n"
    );
    assert_eq!(search(&dir, json!({ "pattern": "text" })).await.unwrap().0, "f:1:text\n");
}

#[tokio::test]
async fn text_in_other_encodings_is_found_as_far_as_it_can_be() {
    let utf16: Vec<u8> =
        "\u{feff}naïve word\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let dir =
        tree(&[("latin1", b"na\xefve word\n"), ("utf16", &utf16), ("bom", b"\xef\xbb\xbfword\n")]);
    let (text, _) = search(&dir, json!({ "pattern": "word$" })).await.unwrap();
    assert!(text.contains("latin1:1:na\u{fffd}ve word\n") && text.contains("bom:1:"), "{text}");
}

#[tokio::test]
async fn only_the_first_of_many_matches_are_shown_with_the_totals() {
    let many = "word\n".repeat(100);
    let files: Vec<(String, &[u8])> =
        (0..9).rev().map(|n| (format!("f{n}"), many.as_bytes())).collect();
    let dir =
        tree(&files.iter().map(|(name, content)| (name.as_str(), *content)).collect::<Vec<_>>());
    let (text, details) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
    assert!(text.starts_with("f0:1:word\nf0:2:word\n"));
    let end = "f2:50:word\n… the first 250 of 900 matching lines in 9 files: narrow it with \
               `path`, `include` or a longer pattern\n";
    assert!(text.ends_with(end), "{}", &text[text.len() - 200..]);
    assert_eq!(
        (details["matches"].as_array().unwrap().len(), &details["total_lines"]),
        (MAX_LINES, &json!(900))
    );
}

#[tokio::test]
async fn a_line_of_any_length_is_cut_at_a_character() {
    let long = format!("word {}\nword\n", "é".repeat(100_000));
    let dir = tree(&[("f", long.as_bytes())]);
    let (text, _) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
    assert!(
        text.len() < 350 && text.contains("é…\nf:2:word\n") && !text.contains('\u{fffd}'),
        "{text}"
    );
}

/// C463: A line may be of any length.
#[tokio::test]
async fn the_shown_part_of_a_long_line_contains_the_match() {
    let long = "é".repeat(100_000);
    for (line, shown) in [
        (format!("{long}word{long}\n"), ("é".repeat(30) + "word", "é…\n")),
        (format!("{long}word\r\n"), ("…é".to_owned(), "éword\n")),
        (format!("x{long}word"), ("…é".to_owned(), "éword\n")),
        (format!("{} word{long}\n", "x".repeat(200)), (format!("f:1:{}", "x".repeat(200)), "é…\n")),
        (format!("{}word\n", "x".repeat(290)), (format!("f:1:{}", "x".repeat(290)), "xword\n")),
    ] {
        let dir = tree(&[("f", line.as_bytes())]);
        let (text, _) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
        assert!(text.contains(&shown.0) && text.ends_with(shown.1), "{text}");
        assert!(text.contains("word") && text.len() < 350 && !text.contains('\u{fffd}'), "{text}");
    }
}

/// C463: A binary file is searched up to its first NUL.
#[tokio::test]
async fn a_binary_file_that_was_not_searched_is_named_if_nothing_matches() {
    let dir = tree(&[("nul", b"text\0bin\nhello\n"), ("t", b"word\n")]);
    let (text, _) = search(&dir, json!({ "pattern": "hello", "path": "nul" })).await.unwrap();
    let note = "… 1 file is binary: only the text at its start was searched\n";
    assert_eq!(text, format!("No line in `nul` matches `hello`.\n{note}"));
    assert!(search(&dir, json!({ "pattern": "hello" })).await.unwrap().0.ends_with(note));
    assert_eq!(search(&dir, json!({ "pattern": "word" })).await.unwrap().0, "t:1:word\n");
}

#[tokio::test]
async fn a_line_without_end_is_not_held() {
    let dir = tree(&[("a", b"word\n"), ("endless", &vec![b'x'; MAX_SEARCHED_LINE_BYTES + 1])]);
    let (text, _) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
    assert_eq!(text, "a:1:word\n… 1 file could not be read, or has a line that is too long\n");
}

#[test]
fn memory_is_bounded_for_any_number_of_matches() {
    let (mut matches, matcher) = (Matches::default(), regex("x").unwrap());
    for n in (0..2_000).rev() {
        let first =
            (0..n % 7).map(|line| Line { line: line as u64, text: String::new() }).collect();
        let in_file = FileMatches { matcher: &matcher, first, count: n % 7, binary: false };
        matches.add(Path::new(&format!("{n:05}")), Ok(in_file));
        assert!(matches.held_lines < MAX_LINES + 7);
        assert_eq!(matches.held_lines, matches.first.values().map(Vec::len).sum::<usize>());
    }
    assert_eq!(matches.first.keys().next().unwrap(), Path::new("00001"));
    assert!(matches.held_lines >= MAX_LINES);
}

#[test]
fn it_needs_no_approval() {
    let dir = tempfile::tempdir().unwrap();
    let tool = search_files(Workspace::open(dir.path()).unwrap());
    let spec = tool.spec();
    assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
    assert_eq!(spec.schema["required"], json!(["pattern"]));
}
