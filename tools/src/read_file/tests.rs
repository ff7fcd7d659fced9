//! Tests of `read_file`, called as by a model.

#![allow(clippy::disallowed_methods, reason = "the test creates its files from outside")]

use std::fs;
use std::io::{Seek, Write};

use serde_json::Value;

use super::*;

async fn call(dir: &tempfile::TempDir, arguments: Value) -> Result<ToolOutput, ToolError> {
    let tool = read_file(Workspace::open(dir.path()).unwrap());
    tool.call(&arguments, ToolContext::detached()).await
}

/// Writes `content` to `f` and reads it with these additional arguments.
async fn read(content: impl AsRef<[u8]>, mut arguments: Value) -> Result<(String, Value), String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), content).unwrap();
    arguments["path"] = "f".into();
    let output = call(&dir, arguments).await.map_err(|e| e.to_string())?;
    let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
    Ok((text.clone(), output.details.unwrap()))
}

fn numbered(lines: u64) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn lines_are_numbered_and_unchanged() {
    let (text, details) = read("a\r\n\tb  \n\nü", json!({})).await.unwrap();
    assert_eq!(text, "     1\ta\r\n     2\t\tb  \n     3\t\n     4\tü\n");
    assert_eq!(details, json!({ "path": "f", "first_line": 1, "last_line": 4, "total_lines": 4 }));
}

#[tokio::test]
async fn the_byte_order_mark_is_not_shown() {
    let text = "\u{feff}a\n\u{feff}b\n";
    assert_eq!(read(text, json!({})).await.unwrap().0, "     1\ta\n     2\t\u{feff}b\n");
    assert_eq!(
        read(text, json!({ "offset": -2, "limit": 1 })).await.unwrap().0.lines().next(),
        Some("     1\ta")
    );
}

#[tokio::test]
async fn a_part_of_a_file_ends_with_how_to_continue() {
    let (text, details) = read(numbered(10), json!({ "offset": 3, "limit": 2 })).await.unwrap();
    assert_eq!(text, "     3\tline 3\n     4\tline 4\n… 6 more lines: continue with offset=5\n");
    assert_eq!(details, json!({ "path": "f", "first_line": 3, "last_line": 4, "total_lines": 10 }));
    let (text, _) = read(numbered(10), json!({ "offset": 9, "limit": 1 })).await.unwrap();
    assert_eq!(text, "     9\tline 9\n… 1 more line: continue with offset=10\n");
    let (text, _) = read(numbered(10), json!({ "offset": 10, "limit": i64::MAX })).await.unwrap();
    assert_eq!(text, "    10\tline 10\n");
    let (text, _) = read(numbered(2_120), json!({})).await.unwrap();
    assert!(
        text.ends_with("  2000\tline 2000\n… 120 more lines: continue with offset=2001\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_negative_offset_counts_from_the_end() {
    let table = [
        (json!({ "offset": -2 }), "     9\tline 9\n    10\tline 10\n"),
        (json!({ "offset": -1, "limit": 5 }), "    10\tline 10\n"),
        (
            json!({ "offset": -4, "limit": 2 }),
            "     7\tline 7\n     8\tline 8\n… 2 more lines: continue with offset=9\n",
        ),
        (
            json!({ "offset": -10, "limit": 1 }),
            "     1\tline 1\n… 9 more lines: continue with offset=2\n",
        ),
        (
            json!({ "offset": i64::MIN, "limit": 1 }),
            "     1\tline 1\n… 9 more lines: continue with offset=2\n",
        ),
        (
            json!({ "offset": null, "limit": 1 }),
            "     1\tline 1\n… 9 more lines: continue with offset=2\n",
        ),
    ];
    for (arguments, wanted) in table {
        let (text, details) = read(numbered(10), arguments.clone()).await.unwrap();
        assert_eq!(text, wanted, "{arguments}");
        assert_eq!(details["total_lines"], 10);
    }
}

/// The lines are not counted, and the middle of the file is not read.
#[tokio::test]
async fn the_last_lines_of_a_huge_file_are_numbered_from_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut huge = fs::File::create(dir.path().join("huge")).unwrap();
    huge.write_all("text\n".repeat(2_000).as_bytes()).unwrap();
    huge.set_len(1 << 30).unwrap();
    huge.seek(std::io::SeekFrom::End(0)).unwrap();
    huge.write_all(b"\nthe last but one\nthe last\n").unwrap();
    let arguments = json!({ "path": "huge", "offset": -2 });
    let output = call(&dir, arguments).await.unwrap();
    let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
    let note = "… the file is too large to count its lines: they are numbered from its end, -1 is \
                the last\n";
    assert_eq!(text, &format!("    -2\tthe last but one\n    -1\tthe last\n{note}"));
    assert_eq!(output.details, Some(json!({ "path": "huge", "first_line": -2, "last_line": -1 })));
    let output = call(&dir, json!({ "path": "huge", "offset": -2, "limit": 1 })).await.unwrap();
    let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
    assert_eq!(
        text,
        &format!("    -2\tthe last but one\n… 1 more line: continue with offset=-1\n{note}")
    );
}

#[tokio::test]
async fn parts_join_to_the_whole_when_bytes_are_the_limit() {
    let whole: String = (0..300).map(|n| format!("{}\n", "é".repeat(n))).collect();
    let mut offset = 1;
    let mut joined = String::new();
    let mut parts = 0;
    while offset <= 300 {
        let (text, details) = read(&whole, json!({ "offset": offset })).await.unwrap();
        assert!(text.len() < MAX_TEXT_BYTES + 100);
        for line in text.lines().filter(|line| !line.starts_with('…')) {
            joined.push_str(line.split_once('\t').unwrap().1);
            joined.push('\n');
        }
        offset = details["last_line"].as_u64().unwrap() + 1;
        parts += 1;
    }
    assert_eq!(joined, whole);
    assert_eq!(parts, 2);
}

#[tokio::test]
async fn a_line_without_end_is_cut_at_a_character() {
    let long = format!("a{}\nnext\n", "é".repeat(MAX_TEXT_BYTES));
    let (text, details) = read(long, json!({})).await.unwrap();
    assert!(text.len() < MAX_TEXT_BYTES + 200);
    let note =
        "… line 1 has 102401 bytes and is cut after 51200\n… 1 more line: continue with offset=2\n";
    assert!(text.ends_with(note), "{}", &text[text.len() - 200..]);
    assert_eq!(details["last_line"], 1);
    let (text, details) = read("x".repeat(MAX_TEXT_BYTES + 1), json!({})).await.unwrap();
    assert!(text.ends_with("x\n… line 1 has 51201 bytes and is cut after 51200\n"));
    assert_eq!(details["total_lines"], 1);
}

#[tokio::test]
async fn an_empty_file_and_an_offset_past_the_end_are_reported() {
    let (text, details) = read("", json!({ "offset": 7 })).await.unwrap();
    assert_eq!((text.as_str(), &details["total_lines"]), ("`f` is empty.", &json!(0)));
    let why = read(numbered(3), json!({ "offset": 4 })).await.unwrap_err();
    assert_eq!(why, "`f` ends with line 3: read it with an offset from 1 to 3");
    assert_eq!(read(numbered(3), json!({ "offset": 900 })).await.unwrap_err(), why);
    let why = read(numbered(3), json!({ "offset": 0 })).await.unwrap_err();
    assert!(why.contains("numbered from 1, and from -1 backwards"), "{why}");
    for limit in [0, -1] {
        assert!(
            read(numbered(3), json!({ "limit": limit }))
                .await
                .unwrap_err()
                .contains("limit below 1")
        );
    }
}

#[tokio::test]
async fn a_file_that_is_not_text_is_refused_with_the_reason() {
    let why = read(b"\x7fELF\x02\x01\0\0", json!({})).await.unwrap_err();
    assert_eq!(why, "`f` is a binary file of 8 bytes, which cannot be shown as text");
    let why = read(b"fine\nna\xefve\n", json!({})).await.unwrap_err();
    assert!(why.starts_with("`f` is not UTF-8 text (line 2 "), "{why}");
    assert!(read(b"fine\nna\xefve\n", json!({ "limit": 1 })).await.is_ok());
}

#[tokio::test]
async fn whole_images_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let gif = BASE64_STANDARD.decode("R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7").unwrap();
    let mut padded = gif.clone();
    padded.resize(20_000, 0); // more than decides about its type
    for bytes in [gif.clone(), padded] {
        fs::write(dir.path().join("picture"), &bytes).unwrap();
        let output = call(&dir, json!({ "path": "picture" })).await.unwrap();
        let [Content::Text { .. }, Content::Image { media_type, data }] = &output.content[..]
        else {
            panic!("{output:?}")
        };
        assert_eq!(media_type, "image/gif");
        assert_eq!(BASE64_STANDARD.decode(data).unwrap(), bytes);
    }
    let mut large = fs::File::create(dir.path().join("large")).unwrap();
    large.write_all(&gif).unwrap();
    large.set_len(MAX_IMAGE_BYTES + 1).unwrap();
    fs::write(dir.path().join("half"), &gif[..gif.len() / 2]).unwrap();
    fs::write(dir.path().join("wide"), [b"GIF89a\x28\x23", &gif[8..]].concat()).unwrap();
    for (path, reason) in [
        ("large", "`large` is an image of 3932161 bytes that cannot be shown: it is larger than"),
        ("half", "`half` is an image of 13 bytes that cannot be shown: it is damaged"),
        ("wide", "it has 9000 by 1 pixels"),
    ] {
        let why = call(&dir, json!({ "path": path })).await.unwrap_err().to_string();
        assert!(why.contains(reason), "{why}");
    }
}

#[tokio::test]
async fn the_end_of_a_file_of_fifty_megabytes_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("{}\n", "x".repeat(99));
    fs::write(dir.path().join("big"), line.repeat(500_000)).unwrap();
    let output = call(&dir, json!({ "path": "big", "offset": 499_999 })).await.unwrap();
    let details = json!({
        "path": "big",
        "first_line": 499_999,
        "last_line": 500_000,
        "total_lines": 500_000,
    });
    assert_eq!(output.details, Some(details));
}

#[test]
fn it_needs_no_approval_and_every_argument_is_described() {
    let dir = tempfile::tempdir().unwrap();
    let tool = read_file(Workspace::open(dir.path()).unwrap());
    let spec = tool.spec();
    assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
    let properties = spec.schema["properties"].as_object().unwrap();
    assert!(properties.values().all(|p| p["description"].is_string()), "{properties:?}");
    assert_eq!(spec.schema["required"], json!(["path"]));
}
