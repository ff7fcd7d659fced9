//! How it looks: on a phone, in the dark, in the light. A person looks at the pictures.

use serde_json::json;

use crate::browser::Tab;
use crate::place::{Place, edit};

const WIDE: &str = "## What I found\n\nThe parser reads **every line twice**, so `cargo bench` shows 40 % more time:\n\n\
    1. `src/parse.rs`, the outer loop\n2. `src/lex.rs`, a *hidden* copy\n   - in `next()`\n   - and in `peek()`\n\n\
    | file | before | after | which of the functions in it is the slowest | and how often it is called |\n|---|---|---|---|---|\n\
    | a-path/that-is/rather-long/without-any/space.rs | 12.4 ms | 7.1 ms | parse_everything_at_once | 1,234,567 |\n\n\
    ```rust\nfn next(&mut self) -> Option<Token> { self.tokens.pop_front().or_else(|| self.more().and_then(|it| it.next())) }\n\
    // a line\n```\n\n> A note that is quoted, with a [link](https://example.org/).\n\n\
    AWordThatIsLongerThanAPhoneIsWideAndHasNoPlaceWhereItCouldBeBrokenByAnybodyAtAll\n";

/// A conversation with something of everything, and a confirmation at its end.
pub(crate) fn talk(place: &Place) -> Tab {
    let tab = place.tab();
    tab.screenshot("empty");
    tab.say("Why is the parser slow? Have a look, and change what has to be changed.");
    place.request().call(&[
        ("read_file", json!({ "path": "Cargo.toml" })),
        ("read_file", json!({ "path": "no.rs" })),
    ]);
    let mut reply = place.request();
    reply.begin();
    reply
        .thinking("They want to know why. It may be the lexer, since it has a copy of each token.");
    reply.text(WIDE);
    reply.end("stop");
    tab.until_text("#status", "Ready");
    tab.say("Change it.");
    place.request().call(&[("edit_file", edit("goats"))]);
    tab.click(".card .approve");
    place.request().call(&[(
        "edit_file",
        json!({ "path": "Cargo.toml", "old_string": "for engineers", "new_string":
        "for engineers of many kinds, and for whoever else would like to have something counted by night" }),
    )]);
    tab.until_text(".card", "Run edit_file?");
    tab.until_text("#status", "Waits for you");
    tab.until_text("#send", "Send"); // the run rests
    tab
}

fn scrolls_sideways(tab: &Tab) -> bool {
    tab.eval("[document.documentElement, document.body, document.querySelector('#scroll')].some((one) => one.scrollWidth > one.clientWidth)")
        == true
}

/// Whether the end of the conversation is in view, once the page has been drawn.
fn is_at_its_end(tab: &Tab) -> bool {
    tab.eval(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
            const one = document.querySelector('#scroll');
            return one.scrollHeight - one.scrollTop - one.clientHeight < 3;
        })",
    ) == true
}

#[test]
fn it_is_readable_on_a_phone_in_the_dark_and_in_the_light() {
    let place = Place::new();
    let tab = talk(&place);
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        tab.size(1280, 1700);
        tab.screenshot(&format!("desk-{scheme}"));
        tab.size(360, 740);
        assert!(is_at_its_end(&tab), "who looks at the end still does when the size changes");
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
    place.request().say_and_count("It is done.", 123_456, 7_890);
    tab.until_text("#spent", "123.5k in · 7.9k out");
    tab.until("document.querySelector('#compact').checkVisibility()");
    assert!(!scrolls_sideways(&tab));
    tab.screenshot("phone-ready");
    // Fingers are not mice.
    let small = tab.eval(
        "[...document.querySelectorAll('main button')].filter((one) => one.checkVisibility() && !one.matches('.copy')
            && one.getBoundingClientRect().height < 32).map((one) => one.outerHTML)",
    );
    assert_eq!(small, json!([]));
}

#[test]
fn everything_has_a_name_and_a_place_in_the_order_of_keys() {
    let place = Place::new();
    let tab = talk(&place);
    let nameless = tab.eval(
        "[...document.querySelectorAll('button, input, textarea, a, summary')]
            .filter((one) => !(one.innerText || one.textContent || one.ariaLabel || one.labels?.length).toString().trim())
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
    for next in [".card .edit", ".card .deny", "#prompt", "#send"] {
        tab.press("Tab", false);
        tab.until(&format!("document.activeElement.matches('{next}')"));
    }
}
