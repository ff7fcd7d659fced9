//! How the source looks: the length of lines, first sentences, imports of the examples.

use std::path::PathBuf;

use super::{read, rust_files, without_tests};

const MAX_COLUMNS: usize = 100;

/// Words that begin a question. A comment that begins with one makes it a noun.
const QUESTIONS: [&str; 5] = ["What", "Which", "How", "Whose", "Whether"];

/// Verbs with a type as their subject. Types are described by noun phrases.
const VERBS_OF_TYPES: [&str; 7] =
    ["Describes", "Holds", "Says", "Represents", "Contains", "Keeps", "Tells"];

/// Phrases that a shorter one replaces.
const LONG_PHRASES: [&str; 2] = [" that of ", " those of "];

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

/// Returns the line and the first word of each comment of a public function that does not begin
/// with a verb in the third person, of each type with such a verb, and of each question.
fn misplaced_first_words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut first: Option<&str> = None;
    let mut in_attribute = false;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if let Some(doc) = line.strip_prefix("///") {
            first = first.or_else(|| doc.split_whitespace().next());
            continue;
        }
        in_attribute |= line.starts_with('#');
        if in_attribute {
            in_attribute = !line.ends_with(']');
            continue;
        }
        if let Some(word) = first.take() {
            let item = line.strip_prefix("pub ").unwrap_or_default();
            let is_fn = ["fn ", "async fn ", "const fn "].iter().any(|kind| item.starts_with(kind));
            let is_verb = word.starts_with(char::is_uppercase)
                && word.ends_with('s')
                && !word.ends_with("ss");
            let is_type = !line.contains("fn ") && VERBS_OF_TYPES.contains(&word);
            if is_fn && !is_verb || is_type || QUESTIONS.contains(&word) {
                found.push(format!("{}: {word}", at + 1));
            }
        }
    }
    found
}

#[test]
fn functions_are_described_by_verbs_and_types_by_nouns() {
    let mut failed = Vec::new();
    // Of other frameworks, doc comments are sent to models. The tests of tools quote such comments.
    let skipped = ["docs/compare", "tests/commands", "tests/spec/tidy/style.rs"];
    let files = rust_files();
    for file in files.iter().filter(|file| !skipped.iter().any(|path| file.starts_with(path))) {
        let text = read(file);
        let found = misplaced_first_words(without_tests(&text));
        failed.extend(found.into_iter().map(|word| format!("{}:{word}", file.display())));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn comments_repeat_a_noun_rather_than_point_to_it() {
    let mut failed = Vec::new();
    for file in rust_files().iter().filter(|file| !file.ends_with("tidy/style.rs")) {
        for (at, line) in read(file).lines().enumerate() {
            let is_comment = line.trim().starts_with("//");
            let phrase = LONG_PHRASES.iter().find(|phrase| line.contains(**phrase));
            if let Some(phrase) = phrase.filter(|_| is_comment) {
                failed.push(format!("{}:{}:{phrase}", file.display(), at + 1));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
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
fn misplaced_words_and_long_lines_are_found() {
    let text = "/// Returns it.\npub fn a() {}\n/// A thing.\n#[derive(Debug)]\npub struct B;\n\
                /// Holds a thing.\n#[derive(\n    Debug,\n)]\npub struct C {\n\
                /// Whether it is.\n    first: bool,\n}\n\
                /// Process it.\npub async fn d() {}\n/// The process.\nfn e() {}\n";
    assert_eq!(misplaced_first_words(text), ["10: Holds", "12: Whether", "15: Process"]);
    assert_eq!(long_lines(&format!("{}\n{}é", "é".repeat(100), "é".repeat(100))), [2]);
}
