//! Text of models and tools is displayed and has no effect.

use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Markup and addresses, each of which would set `canary` if it were more than text.
const HOSTILE: &str = include_str!("hostile.md");

/// C106: Output of models and tools becomes text: no element, no script, no address but http, https
/// and mail.
#[test]
fn script_markup_and_addresses_of_the_model_do_nothing() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say(HOSTILE);
    let mut reply = fixture.request();
    reply.begin();
    // In chunks, so that half of a word is drawn too.
    for chunk in HOSTILE.as_bytes().chunks(7) {
        reply.text(std::str::from_utf8(chunk).unwrap());
    }
    reply.end("stop");
    tab.until_text("#status", "Ready");
    tab.until_text(".assistant", "canary=20");

    tab.say("Now with tools.");
    let hostile = json!({ "path": HOSTILE, "<img src=x onerror=window.canary=21>": HOSTILE });
    fixture
        .request()
        .call(&[("read_file", hostile.clone()), ("<img src=x onerror=window.canary=22>", hostile)]);
    let mut reply = fixture.request();
    reply.begin();
    reply.thinking(HOSTILE);
    reply.text("Read.");
    reply.end("stop");
    tab.until_text(".assistant", "Read.");
    tab.until_text("#status", "Ready");
    std::fs::write(fixture.dir.path().join("page.html"), HOSTILE).unwrap();
    tab.say("A file.");
    fixture.request().call(&[("read_file", json!({ "path": "page.html" }))]);
    fixture.request().call(&[(
        "edit_file",
        json!({ "path": "page.html", "old_string": HOSTILE, "new_string": "<script>" }),
    )]);
    tab.until_text(".card .diff", "canary=20");

    // All folds are opened, and all links are hovered over and clicked.
    tab.eval("document.querySelectorAll('details').forEach((one) => (one.open = true))");
    tab.eval(
        "{ addEventListener('click', (event) =>
             event.target.closest('#log a') && event.preventDefault());
           const init = { bubbles: true, cancelable: true };
           document.querySelectorAll('#log *').forEach((one) => {
             for (const kind of ['mouseover', 'click', 'focus', 'load', 'error'])
               if (!one.closest('button, summary')) one.dispatchEvent(new MouseEvent(kind, init));
           }) }",
    );
    let links = tab
        .eval("[...document.querySelectorAll('#log a')].map((one) => new URL(one.href).protocol)");
    let links: Vec<&str> = links.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(links.len() >= 2 && links.iter().all(|protocol| *protocol == "https:"), "{links:?}");
    let made = tab.eval(
        "[...new Set([...document.querySelectorAll('#log *, #list *, #title *')]
            .filter((one) => one.matches('script, img, svg, iframe, style, object, embed')
              || one.matches('b[onclick], i, form, link, meta, base')
              || [...one.attributes].some(({ name }) => name.startsWith('on')))
            .map((one) => one.outerHTML))]",
    );
    assert_eq!(made, json!([]));
    assert_eq!(tab.eval("typeof window.canary"), "undefined");
    assert!(tab.text("#title").contains("<script>"), "the title is text: {}", tab.text("#title"));
    assert_eq!(tab.console_errors(), Vec::<String>::new(), "the policy had nothing to refuse");
}

/// A user who approves a command sees all of it, even what other characters or the edge would hide.
#[test]
fn nothing_is_hidden_from_a_user_who_decides() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Tidy up.");
    let command =
        format!("echo \u{1b}[8m;rm -r a\u{202e}b\u{200b} {} && rm last", "long ".repeat(60));
    fixture.request().call(&[("execute_command", json!({ "command": command }))]);
    tab.until_text(".card", "Run execute_command?");
    let shown = tab.text(".card code");
    assert!(shown.contains("⟨U+001b⟩[8m;rm -r a⟨U+202e⟩b⟨U+200b⟩"), "{shown}");
    let edges = "(({ right, bottom }) => right <= innerWidth && bottom <= innerHeight)(
        document.querySelector('.card code').getBoundingClientRect())";
    assert_eq!(tab.eval(edges), true);
    tab.size(360, 740);
    assert_eq!(tab.eval("document.querySelector('#scroll').scrollWidth > 360"), false);
}

/// C106: If the page is wrong, its policy refuses: no script from other hosts, no markup made of
/// strings.
#[test]
fn the_policy_would_refuse_it_too() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let refused = |script: &str| {
        tab.eval(&format!("{{ try {{ {script}; 'done' }} catch (why) {{ why.name }} }}"))
    };
    for markup in [
        "document.body.innerHTML = '<img src=x onerror=window.canary=1>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>b</b>')",
        "document.body.setAttribute('onclick', 'window.canary = 2')",
    ] {
        assert_eq!(refused(markup), "TypeError", "{markup}");
    }
    tab.eval(
        "{ const add = (tag, attributes) =>
             document.body.append(Object.assign(document.createElement(tag), attributes));
           const script = document.createElement('script');
           script.append('window.canary = 3');
           document.body.append(script);
           add('img', { src: 'https://example.org/pixel.png' });
           add('a', { href: 'javascript:window.canary=4', id: 'bad' });
           document.getElementById('bad').click(); }",
    );
    assert_eq!(
        tab.eval("fetch('http://127.0.0.1:9/').then(() => 'done', (why) => why.name)"),
        "TypeError"
    );
    assert_eq!(tab.eval("typeof window.canary"), "undefined");
    let console_errors = tab.console_errors().join("\n");
    for kind in ["script-src", "img-src", "connect-src", "TrustedHTML", "TrustedScript"] {
        assert!(console_errors.contains(kind), "{kind}: {console_errors}");
    }
}
