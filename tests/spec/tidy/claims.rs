//! Numbered claims and quirks: each has a test that names it, or a line that says why not.

use super::{read, rust_files};
use std::collections::BTreeSet;

fn tags(text: &str) -> BTreeSet<u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|w| w.strip_prefix('C').and_then(|n| n.parse().ok())).collect()
}

/// Each numbered claim has a test whose doc comment names it, and no test names a claim that is not
/// there.
#[test]
fn every_claim_has_a_test_that_names_it() {
    let map = read("docs/SPEC.md");
    let claimed: BTreeSet<u32> = map
        .lines()
        .filter(|l| l.starts_with("| C"))
        .flat_map(|l| tags(l.split('|').nth(1).unwrap()))
        .collect();
    assert!(claimed.len() > 60);
    let mut named = BTreeSet::new();
    for file in rust_files() {
        let text = read(&file);
        let mut pending = BTreeSet::new();
        for line in text.lines().map(str::trim) {
            if let Some(doc) = line.strip_prefix("/// C") {
                pending.extend(tags(&format!("C{}", doc.split(':').next().unwrap())));
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
        "tests of claims that are not there"
    );
}

/// What servers do otherwise than documented is a list of 44 rows; each has a test named after its
/// number, or a line in `docs/design/providers.md` that says why not.
#[test]
fn every_quirk_has_a_test_or_a_line_that_says_why_not() {
    let number = |text: &str| text.get(..2).and_then(|digits| digits.parse::<u32>().ok());
    let mut minded: BTreeSet<u32> = read("docs/design/providers.md")
        .lines()
        .filter_map(|line| number(line.strip_prefix("- quirk ")?))
        .collect();
    for file in rust_files().iter().filter(|file| file.starts_with("providers")) {
        let mut is_test = false;
        for line in read(file).lines().map(str::trim) {
            let name = line.trim_start_matches("async ").strip_prefix("fn quirk_");
            minded.extend(name.filter(|_| is_test).and_then(number));
            is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        }
    }
    assert_eq!(minded, (1..=44).collect(), "rows 1 to 44");
}
