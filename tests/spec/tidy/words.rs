//! The words of which no identifier is made.

use std::path::Path;

use super::{read, rust_files};

/// Words that stand in no identifier at all, each group with what to write instead.
const WORDS: [(&str, &str); 17] = [
    ("told tell telling hear heard said say spoke", "emit, receive, report, append, print"),
    ("wish wishes minded whoever anew", "request, requested; a plain name"),
    ("occasion", "trigger"),
    ("overlay standing", "transient, active"),
    ("aside", "detached"),
    ("crew", "running"),
    ("rider riders", "request_extensions"),
    ("trouble complaint complaints", "error, warnings"),
    ("elsewhere news ambient", "portable, message, environment"),
    ("patient patience hurry linger moment", "a timeout, a grace period, an interval"),
    ("stuck deaf eager", "log_failed, ignores_keys, what the state is"),
    ("lane floor floors", "queue, minimum, layer"),
    ("longest deepest", "max_bytes, max_depth"),
    ("leaving again begun", "closing, retry, started"),
    ("chance", "random"),
    ("salvage reprompt rig", "parse_text_tool_calls, retry, harness"),
    ("place piece", "what it is: endpoint, position, path; chunk, fragment"),
];

/// Words that stand in no constant.
const CONSTANT_WORDS: [&str; 2] = ["most", "look"];

/// Words that are no name of a type.
const TYPE_WORDS: [&str; 5] = ["hands", "kept", "made", "shown", "found"];

/// Words in a row that stand in no identifier.
const PHRASES: [&str; 5] = ["put_in_order", "given_back", "step_back", "heard_out", "make_room"];

/// Identifiers that are right as they are, with the reason.
const ALLOWED: [(&str, &str); 9] = [
    ("ambient_authority", "cap-std"),
    ("clear_ambient_capability_set", "rustix"),
    ("open_ambient_dir", "cap-std"),
    ("floor", "`f64::floor`, and the client of the benches that does the least"),
    ("Floor", "the client of the benches that does the least"),
    ("floor_char_boundary", "a method of `str`"),
    ("rig", "another framework, in the comparison with it"),
    ("rig_tool", "a macro of it"),
    ("say", "speech"),
];

/// The code of a file: comments, strings and characters left out.
fn without_comments_and_strings(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        at += match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['r', '"' | '#', ..] | ['b', 'r', '"' | '#', ..] if !ends_in_word(&code) => {
                match raw_string(rest) {
                    Some(length) => length,
                    None => {
                        code.push(rest[0]);
                        1
                    }
                }
            }
            ['"', ..] => 1 + quoted(&rest[1..], '"'),
            ['\'', '\\', ..] => 1 + quoted(&rest[1..], '\''),
            ['\'', _, '\'', ..] => 3,
            _ => {
                code.push(rest[0]);
                1
            }
        };
    }
    code
}

fn ends_in_word(code: &str) -> bool {
    code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn block_comment(text: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match text[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// The length of a raw string; `None` if it is a raw identifier.
fn raw_string(text: &[char]) -> Option<usize> {
    let quote = text.iter().position(|c| !matches!(c, 'b' | 'r' | '#'))?;
    if text[quote] != '"' {
        return None;
    }
    let hashes = text[..quote].iter().filter(|c| **c == '#').count();
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let inside = text[quote + 1..].windows(end.len()).position(|window| window == end)?;
    Some(quote + 1 + inside + end.len())
}

/// The length of what stands before a closing quote, and of the quote.
fn quoted(text: &[char], quote: char) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// The words of an identifier, in small letters: parts between `_`, and those that begin with a
/// capital.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        if part.chars().all(|c| !c.is_lowercase()) {
            words.push(part.to_lowercase());
            continue;
        }
        let mut word = String::new();
        for c in part.chars() {
            if c.is_uppercase() && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// Why an identifier may not be called that; `None` if it may.
fn objection(name: &str) -> Option<String> {
    if ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
        return None;
    }
    let words = words(name);
    let is_constant = name.len() > 1 && name.chars().all(|c| !c.is_lowercase());
    let is_type = !is_constant && name.starts_with(char::is_uppercase);
    let joined = format!("_{}_", words.join("_"));
    for word in &words {
        let group = WORDS.iter().find(|(group, _)| group.split(' ').any(|banned| banned == word));
        if let Some((_, instead)) = group {
            return Some(format!("{name}: not `{word}`, but {instead}"));
        }
        if is_constant && CONSTANT_WORDS.contains(&word.as_str()) {
            return Some(format!("{name}: not `{word}`, but what it bounds, as in MAX_BODY_BYTES"));
        }
        if is_type && words.len() == 1 && TYPE_WORDS.contains(&word.as_str()) {
            return Some(format!("{name}: not `{word}`, but a noun for what it is"));
        }
    }
    let phrase = PHRASES.iter().find(|phrase| joined.contains(&format!("_{phrase}_")))?;
    Some(format!("{name}: not `{phrase}`"))
}

/// What is to be changed in a file, its own name included.
fn objections(file: &Path, text: &str) -> Vec<String> {
    let code = without_comments_and_strings(text);
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut names: Vec<&str> = identifiers(&code).chain([stem]).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(objection).collect()
}

#[test]
fn identifiers_are_made_of_the_words_that_every_rust_engineer_uses() {
    let mut failed = Vec::new();
    for file in rust_files() {
        let path = file.display().to_string();
        for objection in objections(&file, &read(&file)) {
            failed.push(format!("{path}: {objection}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_word_is_found_in_each_way_of_writing_it_and_only_as_a_whole() {
    for name in
        ["told", "was_told", "ToldAll", "TOLD_MAX", "isTold", "make_room_for", "MOST", "Found"]
    {
        assert!(objection(name).is_some(), "{name}");
    }
    for name in ["holder", "bold", "replace", "found", "almost", "most", "again_st", "placement"] {
        let is_whole = name == "again_st";
        assert_eq!(objection(name).is_some(), is_whole, "{name}");
    }
}

#[test]
fn comments_strings_and_characters_hold_no_identifiers() {
    let text = "//! told\nfn a<'told_not>() { /* told /* told */ */ \
                b(\"told \\\" told\", 't', '\\'') }\n\
                const X: &str = r#\"told \" told\"#; let r#type = br\"told\"; // told\n";
    let code = without_comments_and_strings(text);
    assert_eq!(code.matches("told").count(), 1, "{code}");
    assert!(code.contains("a<'told_not>") && code.contains("r#type"), "{code}");
}
