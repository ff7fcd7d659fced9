//! How the source looks: the length of lines, the words of comments, imports of the examples.

use std::path::Path;

use super::{NONE, files_where, read, rust_files, without_tests};

/// Words that begin a question. A comment that begins with one makes it a noun.
const QUESTIONS: [&str; 5] = ["What", "Which", "How", "Whose", "Whether"];

/// Verbs with a type as their subject. Types are described by noun phrases.
const VERBS_OF_TYPES: [&str; 7] =
    ["Describes", "Holds", "Says", "Represents", "Contains", "Keeps", "Tells"];

/// Returns the lines with more than 100 columns, and the comments that point to a noun instead of
/// repeating it.
fn bad_lines(text: &str) -> Vec<usize> {
    let is_bad = |line: &str| {
        let points = [" that of ", " those of "].iter().any(|phrase| line.contains(phrase));
        line.chars().count() > 100 || line.trim().starts_with("//") && points
    };
    (1..).zip(text.lines()).filter(|(_, line)| is_bad(line)).map(|(at, _)| at).collect()
}

/// Returns the line and the first word of each comment of a public function that does not begin
/// with a verb in the third person, of each type with such a verb, and of each question.
fn misplaced_first_words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut first: Option<&str> = None;
    let mut in_attribute = false;
    for (at, line) in (1..).zip(text.lines().map(str::trim)) {
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
            let is_capitalised = word.starts_with(char::is_uppercase);
            let is_verb = is_capitalised && word.ends_with('s') && !word.ends_with("ss");
            let is_type = !line.contains("fn ") && VERBS_OF_TYPES.contains(&word);
            if is_fn && !is_verb || is_type || QUESTIONS.contains(&word) {
                found.push(format!("{at}: {word}"));
            }
        }
    }
    found
}

#[test]
fn lines_are_short_and_comments_are_plain() {
    // Of other frameworks, doc comments are sent to models. The tests of tools quote such comments.
    let skipped = ["docs/compare", "tests/commands", "tests/spec/tidy/style.rs"];
    let mut failed = Vec::new();
    for file in rust_files() {
        let text = read(&file);
        let path = file.display();
        failed.extend(bad_lines(&text).iter().map(|line| format!("{path}:{line}")));
        if !skipped.iter().any(|path| file.starts_with(path)) {
            let words = misplaced_first_words(without_tests(&text));
            failed.extend(words.iter().map(|word| format!("{path}:{word}")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Examples show where each name comes from.
#[test]
fn examples_import_by_name() {
    let imports_all = |line: &str| line.trim().starts_with("use ") && line.contains('*');
    let is_broken =
        |file: &Path, text: &str| file.starts_with("examples") && text.lines().any(imports_all);
    assert_eq!(files_where(is_broken), NONE);
}

#[test]
fn misplaced_words_and_bad_lines_are_found() {
    let text = "/// Returns it.\npub fn a() {}\n/// A thing.\n#[derive(Debug)]\npub struct B;\n\
                /// Holds a thing.\n#[derive(\n    Debug,\n)]\npub struct C {\n\
                /// Whether it is.\n    first: bool,\n}\n\
                /// Process it.\npub async fn d() {}\n/// The process.\nfn e() {}\n";
    assert_eq!(misplaced_first_words(text), ["10: Holds", "12: Whether", "15: Process"]);
    let points = "// a word like that of a song";
    assert_eq!(bad_lines(&format!("{}\n{}é\n{points}", "é".repeat(100), "é".repeat(100))), [2, 3]);
}
