//! Accessibility: the keyboard, contrast, motion, screen readers.

use serde_json::json;

use crate::fixture::{Fixture, edit};
use crate::layout::talk;

#[test]
fn everything_can_be_done_with_the_keys() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.until("document.activeElement.id === 'prompt'");
    tab.type_text("No more sheep.");
    tab.press("Enter", false);
    fixture.request().call(&[("edit_file", edit("goats"))]);
    // The focus moves into the card that asks, but not to a button: Enter may be on its way.
    tab.until("document.activeElement.matches('.card h3')");
    tab.press("Enter", false);
    for next in [".diff", ".approve", ".edit", ".deny"] {
        tab.press("Tab", false);
        tab.until(&format!("document.activeElement.matches('.card {next}')"));
    }
    assert!(fixture.read("Cargo.toml").contains("sheep"));
    tab.press("Enter", false);
    tab.until("document.activeElement.matches('.card .reason')");
    tab.press("Tab", false);
    tab.press("Tab", false);
    tab.until("document.activeElement.innerText === 'Back'");
    tab.press("Enter", false);
    tab.until("document.activeElement.matches('.card h3')");
    tab.press("Tab", false);
    tab.press("Tab", false);
    tab.until("document.activeElement.matches('.card .approve')");
    tab.press("Enter", false);
    let mut reply = fixture.request();
    assert!(fixture.read("Cargo.toml").contains("goats"));
    tab.until("document.activeElement.id === 'prompt'");
    reply.begin();
    reply.text("Now I");
    tab.until_text("#log", "Now I");
    tab.press("Escape", false);
    reply.until_hung_up();
    tab.until_text(".notice", "Stopped.");
    assert_eq!(tab.text("#log").matches("Stopped.").count(), 1);

    // From the top of the page.
    let address = tab.address();
    tab.reload();
    tab.until_text(".notice", "Stopped.");
    tab.until_text("#status", "Ready");
    tab.until_text("#list", "No more sheep.");
    tab.eval("document.querySelector('.skip').focus()");
    for next in ["#new", "#list a", "#list button", "#show-settings", "#compact", ".call summary"] {
        tab.press("Tab", false);
        tab.until(&format!("document.activeElement.matches('{next}')"));
        assert_eq!(tab.eval("document.activeElement.matches(':focus-visible')"), true, "{next}");
    }
    tab.press("Enter", false);
    tab.until("document.querySelector('.call details').open === false");
    tab.eval("document.querySelector('.skip').focus()");
    tab.press("Enter", false);
    tab.until("document.activeElement.id === 'prompt'");
    assert_eq!(tab.address(), address, "the session is still the open one");
}

#[test]
fn a_card_does_not_take_the_focus_from_a_user_who_types() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("No more sheep.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("Well");
    tab.until_text("#log", "Well");
    tab.type_text("And also");
    reply.tool("edit_file", &edit("goats"));
    tab.until_text("#status", "Waits for you");
    tab.until_text(".card", "Run edit_file?");
    assert_eq!(tab.eval("document.activeElement.id"), "prompt");
    assert_eq!(tab.eval("document.activeElement.value"), "And also");
}

#[test]
fn a_reply_is_announced_once_when_it_is_complete() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.eval(
        "{ window.announced = [];
           const region = document.querySelector('#announced');
           new MutationObserver(() => announced.push(region.innerText))
             .observe(region, { childList: true, characterData: true, subtree: true }) }",
    );
    tab.say("Count.");
    let mut reply = fixture.request();
    reply.begin();
    for word in ["One", " two", " three"] {
        reply.text(word);
        tab.until_text("#log", word);
    }
    assert_eq!(tab.eval("announced"), json!([]));
    reply.end("stop");
    tab.until_text("#announced", "One two three");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.eval("announced"), json!(["One two three"]));
    // The streaming reply is not in a live region.
    assert_eq!(tab.eval("document.querySelector('#log').ariaLive"), "off");
    assert_eq!(
        tab.eval("document.querySelector('#announced').closest('#log, [aria-live=off]')"),
        json!(null)
    );
}

/// The contrast of texts with their background, by the WCAG's formula; AA requires 4.5.
pub(crate) const CONTRAST: &str = "{
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const paint = canvas.getContext('2d', { willReadFrequently: true });
    const rgb = (...layers) => {
      paint.clearRect(0, 0, 1, 1);
      for (const layer of layers) (paint.fillStyle = layer), paint.fillRect(0, 0, 1, 1);
      return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (colour) => {
      const linear = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
      const [r, g, b] = colour.map((one) => linear(one / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
      const layers = [];
      for (; one; one = one.parentElement) layers.unshift(getComputedStyle(one).backgroundColor);
      return layers;
    };
    const ratio = (front, back) => {
      const [a, b] = [light(rgb(...back, front)), light(rgb(...back))].sort((a, b) => b - a);
      return (a + 0.05) / (b + 0.05);
    };
    const found = [];
    for (const one of document.querySelectorAll('body *')) {
      if (!one.checkVisibility() || one.disabled || one.closest('.unseen')) continue;
      const texts = [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
      const add = (style) => found.push([ratio(style.color, behind(one)), one]);
      if (texts) add(getComputedStyle(one));
      if (one.placeholder) add(getComputedStyle(one, '::placeholder'));
    }
    const bad = found.filter(([ratio]) => ratio < 4.5)
      .map(([ratio, one]) => `${ratio.toFixed(2)} ${one.outerHTML.slice(0, 120)}`);
    [found.length, Math.min(...found.map(([ratio]) => ratio)), bad]
}";

#[test]
fn all_text_has_enough_contrast() {
    let fixture = Fixture::new();
    let tab = talk(&fixture);
    tab.eval("document.querySelectorAll('details').forEach((one) => (one.open = true))");
    tab.eval("document.querySelector('#problem').hidden = false");
    tab.eval("document.querySelector('#problem').classList.add('error')");
    tab.eval("document.querySelector('#problem').textContent = 'A problem.'");
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        for card in [".card .deny", ".card .row button:last-child"] {
            let measured = tab.eval(CONTRAST);
            println!(
                "{scheme}: {} texts, the weakest has {:.2}",
                measured[0],
                measured[1].as_f64().unwrap()
            );
            assert_eq!(measured[2], json!([]), "{scheme}");
            assert!(measured[0].as_u64().unwrap() > 50, "{measured}");
            tab.click(card);
        }
    }
}

#[test]
fn nothing_moves_with_reduced_motion() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Count.");
    let _reply = fixture.request();
    tab.until_text("#status", "Working…");
    let moves = "[getComputedStyle(document.querySelector('#status'), '::before').animationName,
        getComputedStyle(document.querySelector('#empty summary'), '::before').transitionDuration]";
    assert_eq!(tab.eval(moves), json!(["none", "0s"]));
    tab.media("light", "no-preference");
    assert_eq!(tab.eval(moves), json!(["breathe", "0.12s"]));
}
