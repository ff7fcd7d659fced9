//! How the source looks: the length of lines, first sentences, imports of the examples.

use std::path::{Path, PathBuf};

use super::{read, rust_files, without_tests};

const MAX_COLUMNS: usize = 100;

/// First words that are right although they do not end in an `s` that makes a verb of them.
const OTHER_FIRST_WORDS: [&str; 1] = ["Deprecated:"];

/// Public items of these kinds are described by what they do.
const KINDS: [&str; 10] = [
    "fn ",
    "async fn ",
    "const fn ",
    "struct ",
    "enum ",
    "trait ",
    "type ",
    "const ",
    "static ",
    "mod ",
];

fn long_lines(text: &str) -> Vec<usize> {
    let long = text.lines().enumerate().filter(|(_, line)| line.chars().count() > MAX_COLUMNS);
    long.map(|(at, _)| at + 1).collect()
}

#[test]
fn no_line_has_more_than_100_columns() {
    let mut failed = Vec::new();
    for file in rust_files() {
        let path = file.display().to_string();
        for line in long_lines(&read(&file)) {
            failed.push(format!("{path}:{line}"));
        }
    }
    assert!(failed.is_empty(), "more than {MAX_COLUMNS} columns: {}", failed.join(" "));
}

/// The public items whose first sentence does not begin with a third-person verb, and those that
/// have no documentation: `line: item: first word`.
fn without_a_verb(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut first: Option<String> = None;
    let mut in_attribute = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            if first.is_none() {
                let word = doc.split_whitespace().next().unwrap_or_default();
                first = Some(word.to_owned());
            }
            continue;
        }
        in_attribute |= line.starts_with("#[") || line.starts_with("#!");
        if in_attribute {
            in_attribute = !line.ends_with(']');
            continue;
        }
        let item = line.strip_prefix("pub ").unwrap_or_default();
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        if KINDS.iter().any(|kind| item.starts_with(kind))
            && !(item.starts_with("mod ") && item.ends_with(';'))
            && !item.contains('$')
        {
            let word = first.as_deref().unwrap_or("no documentation");
            let is_verb = word.starts_with(char::is_uppercase)
                && word.ends_with('s')
                && !word.ends_with("ss")
                || OTHER_FIRST_WORDS.contains(&word);
            if !is_verb {
                let name = item.split(['(', '{', '<', ':', '=', ';']).next().unwrap_or_default();
                found.push(format!("{}: {}: {word}", at + 1, name.trim()));
            }
        }
        first = None;
    }
    found
}

#[test]
fn public_items_are_described_by_what_they_do() {
    let mut failed = Vec::new();
    let is_source = |file: &Path| file.iter().take(2).any(|part| part == "src");
    for file in rust_files().iter().filter(|file| is_source(file)) {
        let path = file.display().to_string();
        let text = read(file);
        for item in without_a_verb(without_tests(&text)) {
            failed.push(format!("{path}:{item}"));
        }
    }
    assert!(failed.is_empty(), "the first word is no third-person verb:\n{}", failed.join("\n"));
}

/// Examples show where each name comes from.
#[test]
fn examples_import_by_name() {
    let examples: Vec<PathBuf> =
        rust_files().into_iter().filter(|file| file.starts_with("examples")).collect();
    assert!(!examples.is_empty());
    for file in examples {
        let text = read(&file);
        let glob = text.lines().map(str::trim).find(|l| l.starts_with("use ") && l.contains('*'));
        assert_eq!(glob, None, "{}", file.display());
    }
}

#[test]
fn a_noun_phrase_and_a_missing_description_are_found() {
    let text = "/// Returns it.\npub fn a() {}\n/// A thing.\n#[derive(Debug)]\npub struct B;\n\
                pub enum C {\n    /// The first.\n    First,\n}\npub mod d;\n\
                /// What it is.\n    pub async fn e() {}\npub(crate) fn f() {}\n\
                /// Process it.\npub const G: u8 = 1;\n";
    let expected = ["5: struct B: A", "6: enum C: no documentation", "12: async fn e: What"];
    let last = ["15: const G: Process"];
    assert_eq!(without_a_verb(text), expected.iter().chain(&last).copied().collect::<Vec<_>>());
    assert_eq!(long_lines(&format!("{}\n{}é", "é".repeat(100), "é".repeat(100))), [2]);
}
