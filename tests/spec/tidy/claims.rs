//! Numbered claims and quirks: each has a test that names it, or a line that says why not.

use super::{read, rust_files};
use std::collections::BTreeSet;

/// Returns the claim numbers in `text`: 12 for `C12`.
fn claim_numbers(text: &str) -> impl Iterator<Item = u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_prefix('C')?.parse().ok())
}

fn is_test(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

/// The claims of `docs/SPEC.md` are numbered 1, 2, 3 and so on. Each has a test whose doc comment
/// names it, and no test names a claim that does not exist.
#[test]
fn every_claim_has_a_test_that_names_it() {
    let page = read("docs/SPEC.md");
    let claims: Vec<u32> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| C")?.split_once(' ')?.0.parse().ok())
        .collect();
    assert!(claims.len() > 100 && claims.iter().copied().eq(1..=claims.len() as u32), "{claims:?}");
    let mut named = BTreeSet::new();
    for file in rust_files() {
        let mut pending = BTreeSet::new();
        for line in read(&file).lines().map(str::trim) {
            if line.starts_with("/// C") {
                pending.extend(claim_numbers(line.split(':').next().unwrap()));
            } else if is_test(line) {
                named.append(&mut pending);
            } else if !line.starts_with("///") && !line.starts_with("#[") {
                pending.clear();
            }
        }
    }
    let claims: BTreeSet<u32> = claims.into_iter().collect();
    let differing: Vec<_> = named.symmetric_difference(&claims).collect();
    assert!(differing.is_empty(), "claims without a test, or tests without a claim: {differing:?}");
}

/// Servers deviate from their documentation in 44 known ways. Each has a test named after its
/// number, or a line in `docs/design/providers.md` that says why not.
#[test]
fn every_quirk_has_a_test_or_a_line_that_says_why_not() {
    let number = |text: &str| text.get(..2).and_then(|digits| digits.parse::<u32>().ok());
    let mut covered: BTreeSet<u32> = read("docs/design/providers.md")
        .lines()
        .filter_map(|line| number(line.strip_prefix("- quirk ")?))
        .collect();
    for file in rust_files().iter().filter(|file| file.starts_with("providers")) {
        let mut is_of_test = false;
        for line in read(file).lines().map(str::trim) {
            let name = line.trim_start_matches("async ").strip_prefix("fn quirk_");
            covered.extend(name.filter(|_| is_of_test).and_then(number));
            is_of_test = is_test(line);
        }
    }
    assert_eq!(covered, (1..=44).collect(), "rows 1 to 44");
}

/// Each rule that the model checker found necessary names tests, and these exist.
#[test]
fn every_rule_of_the_model_has_a_test() {
    let page = read("docs/model/children/TESTS.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let (listed, tests): (BTreeSet<_>, Vec<_>) = rows.unzip();
    let sources = ["tree", "questions", "rewind", "charges"]
        .map(|file| format!("docs/model/children/src/{file}.rs"));
    let sources = sources.map(read).concat();
    let rules: BTreeSet<_> = sources
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(": \""))
        .filter_map(|(name, rest)| rest.ends_with("\",").then_some(name))
        .collect();
    assert!(rules.len() > 70, "{}", rules.len());
    assert_eq!(rules, listed, "the rules of the model, and the rules of the page");
    let sources: String = rust_files().iter().map(read).collect();
    for test in tests.iter().flat_map(|names| names.split('`').skip(1).step_by(2)) {
        assert!(sources.contains(&format!("fn {test}(")), "{test} does not exist");
    }
}
