//! [`check_name`]: the rules for user names.

use unicode_general_category::{GeneralCategory as Category, get_general_category};
use unicode_normalization::is_nfkc;

use super::caller::{OPERATOR, SYSTEM};

/// Letters and marks that are invisible or look like a space: fillers, joiners, and variation
/// selectors.
const BLANK: [(char, char); 8] = [
    ('\u{34f}', '\u{34f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{e0100}', '\u{e01ef}'),
];

/// Checks that a name looks like no other name. It may have no control or invisible characters and
/// only single spaces between words. It must be in the normal form NFKC, which has no full-width
/// letters and other variants. The rules are close to RFC 8265, *UsernameCasePreserved*, except for
/// spaces and symbols. The error completes "the name …".
///
/// Letters of different scripts that look alike are not found.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let is_blank = |c: char| BLANK.iter().any(|&(first, last)| (first..=last).contains(&c));
    if name.is_empty() {
        return Err("is empty");
    }
    if name.split(' ').any(str::is_empty) {
        return Err("begins or ends with a space, or has two together");
    }
    if !name.chars().all(|c| c == ' ' || (is_shown(c) && !is_blank(c))) {
        return Err("has a character that is not shown");
    }
    if !is_nfkc(name) {
        return Err("has characters that are variants of others: write it in the form NFKC");
    }
    match [OPERATOR, SYSTEM].iter().any(|own| is_alike(own, name)) {
        true => Err("stands for the operator, or for what is decided at a deadline"),
        false => Ok(()),
    }
}

fn is_shown(c: char) -> bool {
    !matches!(
        get_general_category(c),
        Category::Control
            | Category::Format
            | Category::Surrogate
            | Category::PrivateUse
            | Category::Unassigned
            | Category::SpaceSeparator
            | Category::LineSeparator
            | Category::ParagraphSeparator
    )
}

/// Returns whether two names differ at most in case.
pub(crate) fn is_alike(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_shown_like_others_are_refused() {
        for name in [
            "ann",
            "Ann",
            "ann@example.org",
            "auth0|65f0",
            "Ann Lee",
            "J\u{fc}rgen",
            "安娜",
            "a-b_c.d",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
        for name in [
            "",
            "operator",
            "System",
            " ",
            "operator ",
            " ann",
            "ann  lee",
            "ann\u{200b}",
            "ann\u{200d}",
            "ann\u{ad}",
            "ann\u{34f}",
            "ann\u{3164}",
            "ann\u{fe0f}",
            "ann\u{2060}",
            "ann\u{202e}",
            "ann\u{e0041}",
            "ann\u{a0}",
            "ann\u{2028}",
            "ann\0",
            "\u{1b}[2Jann",
            "ann\n",
            "\u{ff41}nn",
            "\u{1d41a}nn",
            "\u{fb01}n",
            "Ju\u{308}rgen",
            "ann\u{e000}",
            "ann\u{2800}",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(is_alike("Ann", "aNN") && !is_alike("ann", "anne"));
    }
}
