//! Truncated files, changed files, and files of another version.

use std::path::Path;

use super::*;

/// Returns the entries of the complete lines within the first `cut` bytes, and whether the cut is
/// between lines.
fn within(
    file: &[u8],
    appends: &[Vec<LogEntry>],
    cut: usize,
    newline_needed: bool,
) -> (Vec<LogEntry>, bool) {
    let mut entries = Vec::new();
    let mut at = 0;
    let mut clean = cut == 0;
    for (n, line) in file.split_inclusive(|byte| *byte == b'\n').enumerate() {
        at += line.len();
        if cut >= at || (cut == at - 1 && !newline_needed) {
            entries.extend(n.checked_sub(1).map(|n| appends[n].clone()).unwrap_or_default());
        }
        clean |= cut == at;
    }
    (entries, clean)
}

/// Cuts the log at each of its last 4 KiB, and opens it.
async fn cut_everywhere(appends: &[Vec<LogEntry>]) {
    let refs: Vec<&[LogEntry]> = appends.iter().map(Vec::as_slice).collect();
    let (_directory, store, file) = store(&refs).await;
    let whole = fs::read(&file).unwrap();
    let torn = file.with_file_name("s.jsonl.torn");
    for cut in whole.len().saturating_sub(4096)..=whole.len() {
        fs::write(&file, &whole[..cut]).unwrap();
        let _ = fs::remove_file(&torn);

        let (readable, clean) = within(&whole, appends, cut, true);
        match store.read("s", 0).await {
            Err(MemoryError::NoSession(_)) if readable.is_empty() => {}
            read => assert_eq!(read.unwrap(), readable, "read when cut at {cut}"),
        }
        assert_eq!(fs::read(&file).unwrap(), whole[..cut], "reading changes nothing");

        let (mut entries, _) = within(&whole, appends, cut, false);
        let memory = store.open("s").await.unwrap();
        let repaired = memory.repaired();
        assert_eq!(repaired.is_none(), clean, "cut at {cut}: {repaired:?}");
        assert_eq!(memory.load(0).await.unwrap(), entries, "cut at {cut}");
        let torn_at = whole[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let saved = fs::read(&torn).unwrap_or_default();
        if !clean && entries.len() == readable.len() && !repaired.unwrap().contains("was complete")
        {
            assert_eq!(
                saved,
                [&whole[torn_at..cut], b"\n"].concat(),
                "a torn line is saved, cut at {cut}"
            );
        } else {
            assert_eq!(saved, b"");
        }
        entries.push(remembered("afterwards"));
        append(&*memory, entries.len() as u64 - 1, &entries[entries.len() - 1..]).await;
        drop(memory);

        let memory = store.open("s").await.unwrap();
        assert_eq!(memory.repaired(), None, "cut at {cut}: repaired once");
        assert_eq!(memory.load(0).await.unwrap(), entries, "cut at {cut}");
    }
}

/// C78: a torn line is cut off, saved and reported; nothing before it is lost.
#[tokio::test]
async fn a_log_cut_at_any_byte_can_be_continued() {
    let long = vec![remembered(&"long \u{2028}".repeat(200)), LogEntry::Reset];
    cut_everywhere(&[
        vec![remembered("first")],
        long.clone(),
        vec![remembered("é\n"); 20],
        long,
        vec![LogEntry::Opened { epoch: 7, time: 7, parent: None, owner: None }],
    ])
    .await;
}

#[tokio::test]
async fn a_log_cut_in_its_header_becomes_a_new_one() {
    cut_everywhere(&[
        vec![LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: None }],
        vec![remembered("é"), LogEntry::Reset],
    ])
    .await;
}

#[tokio::test]
async fn zeros_at_the_end_are_torn() {
    let (_directory, store, file) = store(&[&[remembered("one")], &[remembered("two")]]).await;
    let whole = fs::read(&file).unwrap();
    for (cut, left) in [(whole.len() - 20, 1), (whole.len() - 1, 2), (whole.len(), 2)] {
        fs::write(&file, [&whole[..cut], &[0; 5000]].concat()).unwrap();
        let memory = store.open("s").await.unwrap();
        assert!(memory.repaired().is_some());
        assert_eq!(memory.load(0).await.unwrap().len(), left);
        append(&*memory, left as u64, &[remembered("on")]).await;
        assert_eq!(store.read("s", 0).await.unwrap().len(), left + 1);
    }
}

/// C78: unwritten sectors after a power failure are cut off, even if lines after them are intact,
/// unless one of these shows that everything before it was flushed.
#[tokio::test]
async fn unwritten_sectors_are_torn_unless_a_flushed_entry_follows() {
    let long = remembered(&"long".repeat(1000));
    for (last, flushed) in [(remembered("last"), false), (LogEntry::Reset, true)] {
        let appends: [&[LogEntry]; 3] = [&[LogEntry::Reset], std::slice::from_ref(&long), &[last]];
        let (_directory, store, file) = store(&appends).await;
        let mut bytes = fs::read(&file).unwrap();
        bytes[1024..2048].fill(0);
        fs::write(&file, &bytes).unwrap();
        if flushed {
            assert_names(&store.open("s").await.err().unwrap(), &file);
            assert_eq!(fs::read(&file).unwrap(), bytes, "nothing is changed");
            continue;
        }
        assert_eq!(store.read("s", 0).await.unwrap(), [LogEntry::Reset]);
        let memory = store.open("s").await.unwrap();
        assert!(memory.repaired().is_some());
        assert_eq!(memory.load(0).await.unwrap(), [LogEntry::Reset]);
        append(&*memory, 1, &[remembered("on")]).await;
        let kept = fs::read(&file).unwrap();
        let torn = fs::read(file.with_file_name("s.jsonl.torn")).unwrap();
        let whole = bytes.len() - (torn.len() - 1);
        assert_eq!((&torn[..torn.len() - 1], &kept[..whole]), (&bytes[whole..], &bytes[..whole]));
    }
}

/// Checks that the error names the file and a line.
fn assert_names(error: &MemoryError, file: &Path) {
    let text = error.to_string();
    let position = text
        .split("line ")
        .nth(1)
        .and_then(|rest| rest.split_once(" of "))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        position.0.parse::<u64>().is_ok() && position.1.starts_with(file.to_str().unwrap()),
        "{text}"
    );
    assert!(matches!(error, MemoryError::Damaged(_) | MemoryError::Newer { .. }), "{error:?}");
}

/// C78: any other damage is an error that names file and line, and changes nothing.
#[tokio::test]
async fn a_flipped_bit_is_detected() {
    let log = [remembered("one"), remembered("two é"), LogEntry::Reset];
    let (directory, store, trunk) = store(&[&log[..1], &log[1..]]).await;
    store.fork("s", None, "b").await.unwrap();
    let branch = store.open("b").await.unwrap();
    append(&*branch, 3, &[remembered("own")]).await;
    drop(branch);
    for (session, file) in [("s", trunk), ("b", directory.path().join("b.jsonl"))] {
        let whole = fs::read(&file).unwrap();
        let entries = store.read(session, 0).await.unwrap();
        let mut errors = 0;
        for flip in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[flip / 8] ^= 1 << (flip % 8);
            fs::write(&file, &changed).unwrap();
            match store.read(session, 0).await {
                Ok(read) => assert_eq!(read, entries, "bit {flip}"),
                Err(error) => assert_names(&error, &file),
            }
            match store.open(session).await {
                Ok(memory) => assert_eq!(memory.load(0).await.unwrap(), entries, "bit {flip}"),
                Err(error) => {
                    assert_names(&error, &file);
                    errors += 1;
                }
            }
            assert_eq!(fs::read(&file).unwrap(), changed, "bit {flip}: nothing is changed");
        }
        assert!(
            errors * 100 >= whole.len() * 8 * 99,
            "{errors} of {} flips were detected",
            whole.len() * 8
        );
        fs::write(&file, &whole).unwrap();
    }
}

/// One damaged session does not hide the others.
#[tokio::test]
async fn damage_and_newer_versions_are_distinguished() {
    let (directory, store, file) = store(&[&[remembered("one")]]).await;
    let good = store.open("good").await.unwrap();
    append(&*good, 0, &[remembered("word")]).await;
    drop(good);
    let whole = fs::read_to_string(&file).unwrap();
    let newer = whole.replace(r#""version":1"#, r#""version":12,"more":[]"#);
    let unknown = r#"[{"type":"telepathy"}]"#;
    let line = format!(
        r#"{{"at":1,"crc":"{:08x}","entries":{unknown}}}"#,
        crc32fast::hash(unknown.as_bytes())
    );
    let misplaced = whole.lines().last().unwrap();
    for (text, expected) in [
        (newer, "update loopwright"),
        (format!("{whole}{line}\n"), "): update loopwright, a newer version may have written it"),
        (format!("{whole}{line}"), "): update loopwright, a newer version may have written it"),
        (format!("{whole}{misplaced}\n"), "its `at` is 0, but 1 entries precede it"),
        (format!("{whole}\n"), "line 3 of"),
        (format!("{whole}by hand, without an end"), "line 3 of"),
        ("a note of my own".into(), "line 1 of"),
        (whole.replace("\"s\"", "\"t\""), "line 1 of"),
        (
            fs::read_to_string(directory.path().join("good.jsonl")).unwrap(),
            "the log of the session `good`",
        ),
    ] {
        fs::write(&file, &text).unwrap();
        for error in [store.open("s").await.err().unwrap(), store.session("s").await.unwrap_err()] {
            assert_names(&error, &file);
            assert!(error.to_string().contains(expected), "{error} should contain {expected:?}");
        }
        assert_eq!(store.sessions().await.unwrap().len(), 1, "{text}");
        assert_eq!(store.search("word", 9).await.unwrap().len(), 1);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing is changed");
        let refused = store.delete("good").await;
        if let Err(error) = &refused {
            assert!(error.to_string().contains("may share its entries"), "{error}");
            continue;
        }
        let good = store.open("good").await.unwrap();
        append(&*good, 0, &[remembered("word")]).await;
    }
    store.delete("s").await.unwrap();
    assert!(!file.exists(), "a damaged session can be deleted");
}

/// The error for a branch without its parent names the missing file.
#[tokio::test]
async fn a_branch_whose_parent_is_missing_is_damaged() {
    let (directory, store, file) = store(&[&[remembered("one")], &[LogEntry::Reset]]).await;
    store.fork("s", None, "b").await.unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    let branch = directory.path().join("b.jsonl");
    let shorter: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(&file, shorter).unwrap();
    let error = store.open("b").await.err().unwrap();
    assert_names(&error, &branch);
    assert!(error.to_string().contains("which has only 1"), "{error}");
    fs::remove_file(&file).unwrap();
    let error = store.read("b", 0).await.unwrap_err();
    assert_names(&error, &branch);
    assert!(error.to_string().contains("s.jsonl cannot be read"), "{error}");
    fs::write(&file, whole).unwrap();
    assert_eq!(store.read("b", 0).await.unwrap().len(), 2);
}
