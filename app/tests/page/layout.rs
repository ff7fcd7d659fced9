//! The layout: on a phone, in dark and in light colours. A person checks the screenshots.

use loopwright_test_support::browser::Tab;
use serde_json::json;

use crate::fixture::{Fixture, edit};

const WIDE: &str = include_str!("wide.md");

/// Returns a tab with a conversation of every kind of content, and a pending action at its end.
pub(crate) fn talk(fixture: &Fixture) -> Tab {
    let tab = fixture.tab();
    tab.screenshot("empty");
    tab.say("Why is the parser slow? Have a look, and change what has to be changed.");
    fixture.request().call(&[
        ("read_file", json!({ "path": "Cargo.toml" })),
        ("read_file", json!({ "path": "no.rs" })),
    ]);
    let mut reply = fixture.request();
    reply.begin();
    reply
        .thinking("They want to know why. It may be the lexer, since it has a copy of each token.");
    reply.text(WIDE);
    reply.end("stop");
    tab.until_text("#status", "Ready");
    tab.say("Change it.");
    fixture.request().call(&[("edit_file", edit("goats"))]);
    tab.click(".card .approve");
    fixture.request().call(&[(
        "edit_file",
        json!({
            "path": "Cargo.toml",
            "old_string": "for engineers",
            "new_string": "for engineers of many kinds, and for all other people who would like to \
                have something counted by night",
        }),
    )]);
    tab.until_text(".card", "Run edit_file?");
    tab.until_text("#status", "Waits for you");
    tab.until_text("#send", "Send"); // the run has ended
    tab.until_text(".card .diff", "of many kinds"); // the preview, which moves the buttons
    tab
}

fn scrolls_sideways(tab: &Tab) -> bool {
    tab.eval(
        "[document.documentElement, document.body, document.querySelector('#scroll')]
            .some((one) => one.scrollWidth > one.clientWidth)",
    ) == true
}

/// Returns whether the end of the conversation is in view, once the page has been drawn.
fn is_at_its_end(tab: &Tab) -> bool {
    tab.eval(
        "new Promise((done) => {
            requestAnimationFrame(() => requestAnimationFrame(done));
        }).then(() => {
            const one = document.querySelector('#scroll');
            return one.scrollHeight - one.scrollTop - one.clientHeight < 3;
        })",
    ) == true
}

#[test]
fn it_is_readable_on_a_phone_in_the_dark_and_in_the_light() {
    let fixture = Fixture::new();
    let tab = talk(&fixture);
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        tab.size(1280, 1700);
        tab.screenshot(&format!("desk-{scheme}"));
        tab.size(360, 740);
        assert!(is_at_its_end(&tab), "the end stays in view when the size changes");
        assert!(!scrolls_sideways(&tab));
        tab.screenshot(&format!("phone-{scheme}"));
    }
    let dark = tab.eval("getComputedStyle(document.body).backgroundColor");
    tab.prefer("light");
    assert_ne!(tab.eval("getComputedStyle(document.body).backgroundColor"), dark);
    tab.eval("document.querySelector('#scroll').scrollTop = 300");
    tab.until("!document.querySelector('#down').hidden");
    tab.screenshot("phone-scrolled");
    tab.click("#down");
    tab.until("document.querySelector('#down').hidden");

    tab.size(360, 460); // a keyboard takes the rest
    assert!(is_at_its_end(&tab));
    tab.size(360, 740);
    tab.click(".card .edit");
    assert!(!scrolls_sideways(&tab));
    tab.screenshot("phone-edit");
    tab.click("#menu");
    tab.until("document.activeElement.id === 'new'");
    tab.until_text("#list", "Why is the parser slow?");
    assert!(!scrolls_sideways(&tab));
    tab.screenshot("phone-sessions");
    tab.press("Escape", false);
    tab.until("!document.body.classList.contains('nav') && document.activeElement.id === 'prompt'");
    tab.click(".card .row button:last-child");
    tab.click(".card .approve");
    fixture.request().reply_with_usage("It is done.", 123_456, 7_890);
    tab.until_text("#spent", "123.5k in · 7.9k out");
    tab.until("document.querySelector('#compact').checkVisibility()");
    assert!(!scrolls_sideways(&tab));
    tab.screenshot("phone-ready");
    // Fingers are not mice.
    tab.touch();
    let small = tab.eval(
        "[...document.querySelectorAll('main :is(button, summary)')]
            .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
            .map((one) => one.outerHTML)",
    );
    assert_eq!(small, json!([]));
}

#[test]
fn everything_has_a_name_and_is_in_the_order_of_keys() {
    let fixture = Fixture::new();
    let tab = talk(&fixture);
    let nameless = tab.eval(
        "[...document.querySelectorAll('button, input, textarea, a, summary')]
            .filter((one) => {
                const name = one.innerText || one.textContent || one.ariaLabel;
                return !String(name || one.labels?.length || '').trim();
            })
            .map((one) => one.outerHTML)",
    );
    assert_eq!(nameless, json!([]));
    for (selector, attribute, value) in [
        ("#log", "role", "log"),
        ("#status", "role", "status"),
        ("#problem", "role", "alert"),
        ("nav", "aria-label", "Sessions"),
    ] {
        let script = format!("document.querySelector('{selector}').getAttribute('{attribute}')");
        assert_eq!(tab.eval(&script), value);
    }
    // From the message, backwards: nothing but the card's buttons lies between.
    tab.eval("document.querySelector('.card .approve').focus()");
    for next in [".card .edit", ".card .deny", "#prompt", "#attach", "#send"] {
        tab.press("Tab", false);
        tab.until(&format!("document.activeElement.matches('{next}')"));
    }
}
