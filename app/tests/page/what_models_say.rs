//! What a model says is shown and does nothing.

use serde_json::{Value, json};

use crate::place::Place;

/// Each would set `canary`, were it more than text.
const HOSTILE: &str = r#"<script>window.canary = 1</script><img src=x onerror="window.canary = 2"> <svg onload=window.canary=3>

<iframe srcdoc="<script>parent.canary = 4</script>"></iframe>

[one](javascript:window.canary=5) [two](  JaVaScRiPt:window.canary=6 "title") ![three](javascript:window.canary=7)
[four](java
script:window.canary=8) <javascript:window.canary=9> [five](data:text/html,<script>opener.canary=10</script>)
[six](https://example.org/"onmouseover="window.canary=11) [seven](vbscript:x) [eight](//example.org) [nine](&#106;avascript:window.canary=12)
![remote](https://example.org/pixel.png) **<b onclick=window.canary=13>bold</b>** `<i>code</i>` <https://example.org/"><script>window.canary=14</script>>

| <script>window.canary=15</script> | b |
|---|---|
| <img src=x onerror=window.canary=16> | [c](javascript:window.canary=17) |

- <style>* { display: none }</style>
> <a href="javascript:window.canary=18">quoted</a>

```html"><script>window.canary=19</script>
</code></pre><script>window.canary=20</script>
```
"#;

/// C103: What models and tools say becomes text: no element, no script, no address but http, https
/// and mail.
#[test]
fn script_markup_and_addresses_of_the_model_do_nothing() {
    let place = Place::new();
    let tab = place.tab();
    tab.say(HOSTILE);
    let mut reply = place.request();
    reply.begin();
    // In pieces, so that half of a word is drawn too.
    for piece in HOSTILE.as_bytes().chunks(7) {
        reply.text(std::str::from_utf8(piece).unwrap());
    }
    reply.end("stop");
    tab.until_text("#status", "Ready");
    tab.until_text(".assistant", "canary=20");

    tab.say("Now with tools.");
    let hostile = json!({ "path": HOSTILE, "<img src=x onerror=window.canary=21>": HOSTILE });
    place
        .request()
        .call(&[("read_file", hostile.clone()), ("<img src=x onerror=window.canary=22>", hostile)]);
    let mut reply = place.request();
    reply.begin();
    reply.thinking(HOSTILE);
    reply.text("Read.");
    reply.end("stop");
    tab.until_text(".assistant", "Read.");
    tab.until_text("#status", "Ready");
    std::fs::write(place.dir.path().join("page.html"), HOSTILE).unwrap();
    tab.say("A file.");
    place.request().call(&[("read_file", json!({ "path": "page.html" }))]);
    place.request().call(&[(
        "edit_file",
        json!({ "path": "page.html", "old_string": HOSTILE, "new_string": "<script>" }),
    )]);
    tab.until_text(".card .diff", "canary=20");

    // All folds are opened, all links are gone over and clicked.
    tab.eval("document.querySelectorAll('details').forEach((one) => (one.open = true))");
    tab.eval(
        "{ addEventListener('click', (event) => event.target.closest('#log a') && event.preventDefault());
           document.querySelectorAll('#log *').forEach((one) => {
             for (const kind of ['mouseover', 'click', 'focus', 'load', 'error'])
               if (!one.closest('button, summary')) one.dispatchEvent(new MouseEvent(kind, { bubbles: true, cancelable: true }));
           }) }",
    );
    let links = tab
        .eval("[...document.querySelectorAll('#log a')].map((one) => new URL(one.href).protocol)");
    let links: Vec<&str> = links.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(links.len() >= 2 && links.iter().all(|protocol| *protocol == "https:"), "{links:?}");
    let made = tab.eval(
        "[...new Set([...document.querySelectorAll('#log *, #list *, #title *')]
            .filter((one) => one.matches('script, img, svg, iframe, style, object, embed, b[onclick], i, form, link, meta, base')
              || [...one.attributes].some(({ name }) => name.startsWith('on')))
            .map((one) => one.outerHTML))]",
    );
    assert_eq!(made, json!([]));
    assert_eq!(tab.eval("typeof window.canary"), "undefined");
    assert!(tab.text("#title").contains("<script>"), "the title is text: {}", tab.text("#title"));
    assert_eq!(tab.complaints(), Vec::<String>::new(), "nothing was left for the policy to refuse");
}

/// Who approves a command sees all of it, also what would hide behind other characters or beyond
/// the edge.
#[test]
fn nothing_is_hidden_from_who_decides() {
    let place = Place::new();
    let tab = place.tab();
    tab.say("Tidy up.");
    let command =
        format!("echo \u{1b}[8m;rm -r a\u{202e}b\u{200b} {} && rm last", "long ".repeat(60));
    place.request().call(&[("execute_command", json!({ "command": command }))]);
    tab.until_text(".card", "Run execute_command?");
    let shown = tab.text(".card code");
    assert!(shown.contains("⟨U+001b⟩[8m;rm -r a⟨U+202e⟩b⟨U+200b⟩"), "{shown}");
    let edges = "(({ right, bottom }, { width, height }) => right <= width && bottom <= height)(
        document.querySelector('.card code').getBoundingClientRect(), { width: innerWidth, height: innerHeight })";
    assert_eq!(tab.eval(edges), true);
    tab.size(360, 740);
    assert_eq!(tab.eval("document.querySelector('#scroll').scrollWidth > 360"), false);
}

/// C103: Should the page be wrong, its policy refuses: no script from elsewhere, no markup made of
/// strings.
#[test]
fn the_policy_would_refuse_it_too() {
    let place = Place::new();
    let tab = place.tab();
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
        "{ const add = (tag, attributes) => document.body.append(Object.assign(document.createElement(tag), attributes));
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
    let complaints = tab.complaints().join("\n");
    for kind in ["script-src", "img-src", "connect-src", "TrustedHTML", "TrustedScript"] {
        assert!(complaints.contains(kind), "{kind}: {complaints}");
    }
}
