//! Numbered claims and quirks: each has a test that names it, or a line that says why not.

use super::{read, rust_files};
use std::collections::BTreeSet;

/// Returns the claim numbers in `text`: 12 for `C12`.
fn claim_numbers(text: &str) -> BTreeSet<u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|w| w.strip_prefix('C').and_then(|n| n.parse().ok())).collect()
}

/// Returns the numbers of the claims in `docs/SPEC.md`, in its order.
fn claims() -> Vec<u32> {
    read("docs/SPEC.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| C")?.split_once(' ')?.0.parse().ok())
        .collect()
}

/// Each numbered claim has a test whose doc comment names it, and no test names a claim that does
/// not exist.
#[test]
fn every_claim_has_a_test_that_names_it() {
    let claimed: BTreeSet<u32> = claims().into_iter().collect();
    assert!(claimed.len() > 100);
    let mut named = BTreeSet::new();
    for file in rust_files() {
        let text = read(&file);
        let mut pending = BTreeSet::new();
        for line in text.lines().map(str::trim) {
            if let Some(doc) = line.strip_prefix("/// C") {
                pending.extend(claim_numbers(&format!("C{}", doc.split(':').next().unwrap())));
            } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                named.append(&mut pending);
            } else if !line.starts_with("///") && !line.starts_with("#[") {
                pending.clear();
            }
        }
    }
    assert_eq!(
        claimed.difference(&named).collect::<Vec<_>>(),
        Vec::<&u32>::new(),
        "claims without a test"
    );
    assert_eq!(
        named.difference(&claimed).collect::<Vec<_>>(),
        Vec::<&u32>::new(),
        "tests of claims that do not exist"
    );
}

/// The claims are numbered 1, 2, 3 and so on, in the order of `docs/SPEC.md`.
#[test]
fn the_claims_are_numbered_without_gaps() {
    let claims = claims();
    let last = u32::try_from(claims.len()).unwrap();
    assert_eq!(claims, (1..=last).collect::<Vec<_>>());
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
        let mut is_test = false;
        for line in read(file).lines().map(str::trim) {
            let name = line.trim_start_matches("async ").strip_prefix("fn quirk_");
            covered.extend(name.filter(|_| is_test).and_then(number));
            is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        }
    }
    assert_eq!(covered, (1..=44).collect(), "rows 1 to 44");
}

/// Each rule that the model checker found necessary names tests, and these exist.
#[test]
fn every_rule_of_the_model_has_a_test() {
    let page = read("docs/model/children/TESTS.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let (mut listed, mut tests) = (BTreeSet::new(), BTreeSet::new());
    for (rule, names) in rows {
        listed.insert(rule.to_owned());
        tests.extend(names.split('`').skip(1).step_by(2).map(|name| format!("fn {name}(")));
    }
    let mut rules = BTreeSet::new();
    for file in ["tree", "questions", "rewind", "charges"] {
        let source = read(format!("docs/model/children/src/{file}.rs"));
        let of_rule = |line: &str| {
            let (name, rest) = line.strip_prefix("    ")?.split_once(": \"")?;
            rest.ends_with("\",").then(|| name.to_owned())
        };
        rules.extend(source.lines().filter_map(of_rule));
    }
    assert!(rules.len() > 70, "{}", rules.len());
    assert_eq!(rules, listed, "the rules of the model, and those of the page");
    let sources: String = rust_files().iter().map(read).collect();
    let missing: Vec<_> = tests.iter().filter(|test| !sources.contains(test.as_str())).collect();
    assert!(missing.is_empty(), "tests that do not exist: {missing:?}");
}
