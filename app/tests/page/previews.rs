//! The change that a call would make, on the card that asks for a decision.

use serde_json::json;

use crate::fixture::{Fixture, edit};

/// C252: The card of `write_file` and `edit_file` shows the change as a diff, as text, even after a
/// reload; or it says why it has none.
#[test]
fn the_change_is_shown_before_the_decision() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Rewrite it.");
    let written = json!({ "path": "Cargo.toml", "content": "<img src=x>\n\u{202e}hidden\n++ x\n" });
    fixture.request().call(&[("write_file", written)]);
    tab.until_text(".card .diff .add", "+<img src=x>");
    tab.until_text(".card .diff .add", "+⟨U+202e⟩hidden");
    tab.until_text(".card .diff .add", "+++ x"); // not a head
    tab.until_text(".card .diff .del", "-description = \"Counts sheep for engineers\"");
    tab.screenshot("preview");
    tab.reload();
    tab.until_text(".card .diff .del", "Counts sheep");
    tab.click(".card .deny");
    tab.until_text(".card .diff .del", "Counts sheep");
    tab.press("Enter", false);

    let mut missing = edit("goats");
    missing["old_string"] = json!("llamas");
    fixture.request().call(&[("edit_file", missing)]);
    tab.until_text(".card .note", "The change cannot be previewed");
    tab.until_text(".card .diff .del", "llamas");
    assert_eq!(tab.count(".card img"), 0);
    assert!(fixture.read("Cargo.toml").contains("sheep"));
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C485: An approval of a change that is no longer the one shown does not run the call.
#[test]
fn a_change_that_is_not_the_one_shown_is_not_made() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Rewrite it.");
    fixture.request().call(&[("edit_file", edit("goats"))]);
    tab.until_text(".card .diff .add", "goats for engineers");
    let theirs = fixture.read("Cargo.toml").replace("engineers", "everyone");
    fixture.write("Cargo.toml", &theirs);
    tab.click(".card .approve");
    let request = fixture.request();
    assert!(request.last().contains("It has not run"), "{}", request.last());
    assert_eq!(fixture.read("Cargo.toml"), theirs);
    request.call(&[("edit_file", edit("goats"))]);
    tab.until_text(".card .diff .add", "goats for everyone");
    tab.click(".card .approve");
    fixture.request().say("Done.");
    tab.until_text(".assistant", "Done.");
    tab.screenshot("preview-changed");
    assert_eq!(fixture.read("Cargo.toml"), theirs.replace("sheep", "goats"));
}
