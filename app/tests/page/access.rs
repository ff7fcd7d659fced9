//! The page for who has no mouse, sees little, or listens.

use serde_json::json;

use crate::looks::talk;
use crate::place::{Place, edit};

#[test]
fn everything_can_be_done_with_the_keys() {
    let place = Place::new();
    let tab = place.tab();
    tab.until("document.activeElement.id === 'prompt'");
    tab.type_text("No more sheep.");
    tab.press("Enter", false);
    place.request().call(&[("edit_file", edit("goats"))]);
    // The keyboard goes into the card that asks, on no button yet: Enter would be too quick.
    tab.until("document.activeElement.matches('.card h3')");
    tab.press("Enter", false);
    for next in [".diff", ".approve", ".edit", ".deny"] {
        tab.press("Tab", false);
        tab.until(&format!("document.activeElement.matches('.card {next}')"));
    }
    assert!(place.read("Cargo.toml").contains("sheep"));
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
    let mut reply = place.request();
    assert!(place.read("Cargo.toml").contains("goats"));
    tab.until("document.activeElement.id === 'prompt'");
    reply.begin();
    reply.text("Now I");
    tab.until_text("#log", "Now I");
    tab.press("Escape", false);
    reply.until_hung_up();
    tab.until_text(".notice", "Stopped.");

    // From the top of the page.
    let address = tab.address();
    tab.reload();
    tab.until_text(".notice", "Stopped.");
    tab.until_text("#status", "Ready");
    tab.until_text("#list", "No more sheep.");
    tab.eval("document.querySelector('.skip').focus()");
    for next in ["#new", "#list a", "#list button", "#compact", ".call summary"] {
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
fn a_card_does_not_take_the_keyboard_from_who_types() {
    let place = Place::new();
    let tab = place.tab();
    tab.say("No more sheep.");
    let mut reply = place.request();
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
fn a_reply_is_read_out_once_when_it_is_whole() {
    let place = Place::new();
    let tab = place.tab();
    tab.eval(
        "{ window.heard = [];
           new MutationObserver(() => heard.push(document.querySelector('#spoken').innerText))
             .observe(document.querySelector('#spoken'), { childList: true, characterData: true, subtree: true }) }",
    );
    tab.say("Count.");
    let mut reply = place.request();
    reply.begin();
    for word in ["One", " two", " three"] {
        reply.text(word);
        tab.until_text("#log", word);
    }
    assert_eq!(tab.eval("heard"), json!([]));
    reply.end("stop");
    tab.until_text("#spoken", "One two three");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.eval("heard"), json!(["One two three"]));
    // What streams is in no region that is read out as it changes.
    assert_eq!(tab.eval("document.querySelector('#log').ariaLive"), "off");
    assert_eq!(
        tab.eval("document.querySelector('#spoken').closest('#log, [aria-live=off]')"),
        json!(null)
    );
}

/// Text and what stands behind it, by the WCAG's measure; AA asks for 4.5.
const CONTRAST: &str = "{
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const paint = canvas.getContext('2d', { willReadFrequently: true });
    const rgb = (...layers) => {
      paint.clearRect(0, 0, 1, 1);
      for (const layer of layers) (paint.fillStyle = layer), paint.fillRect(0, 0, 1, 1);
      return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (colour) => {
      const [r, g, b] = colour.map((one) => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
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
      if (texts) found.push([ratio(getComputedStyle(one).color, behind(one)), one]);
      if (one.placeholder) found.push([ratio(getComputedStyle(one, '::placeholder').color, behind(one)), one]);
    }
    const bad = found.filter(([ratio]) => ratio < 4.5).map(([ratio, one]) => `${ratio.toFixed(2)} ${one.outerHTML.slice(0, 120)}`);
    [found.length, Math.min(...found.map(([ratio]) => ratio)), bad]
}";

#[test]
fn all_text_stands_out_from_what_is_behind_it() {
    let place = Place::new();
    let tab = talk(&place);
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
fn nothing_moves_for_who_wants_no_motion() {
    let place = Place::new();
    let tab = place.tab();
    tab.say("Count.");
    let _reply = place.request();
    tab.until_text("#status", "Working…");
    let moves = "[getComputedStyle(document.querySelector('#status'), '::before').animationName,
        getComputedStyle(document.querySelector('#empty summary'), '::before').transitionDuration]";
    assert_eq!(tab.eval(moves), json!(["none", "0s"]));
    tab.media("light", "no-preference");
    assert_eq!(tab.eval(moves), json!(["breathe", "0.12s"]));
}
