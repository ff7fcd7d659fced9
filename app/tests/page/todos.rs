//! The model's todo list on the page.

use serde_json::{Value, json};

use crate::access::CONTRAST;
use crate::fixture::Fixture;

fn list(items: &[(&str, &str)]) -> Value {
    let item = |(content, status): &(&str, &str)| json!({ "content": content, "status": status });
    json!({ "todos": items.iter().map(item).collect::<Vec<_>>() })
}

/// C520: The list stands above the message and is updated in place, also after a reload, until it
/// is completed. Its calls have one block.
#[test]
fn the_list_is_updated_in_place() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    assert_eq!(tab.eval("document.querySelector('#todos').checkVisibility()"), false);
    tab.say("Fix it.");
    let first = list(&[("Read <b>it</b>", "in_progress"), ("Fix it", "pending")]);
    fixture.request().call(&[("write_todos", first)]);
    tab.until_text("#todos summary", "Todo · 0 of 2 done: Read <b>it</b>");
    let second = list(&[("Read <b>it</b>", "completed"), ("Fix it", "in_progress")]);
    fixture.request().call(&[("write_todos", second)]);
    for reloaded in [false, true] {
        if reloaded {
            tab.reload();
        }
        tab.until_text("#todos summary", "Todo · 1 of 2 done: Fix it");
        assert_eq!(tab.count("#todos li"), 2);
        assert_eq!(tab.count("#todos li[data-status=completed]"), 1);
        let blocks = "[...document.querySelectorAll('.call')].filter((it) => it.checkVisibility())";
        tab.until(&format!("{blocks}.length === 1"));
        tab.until_text(".call:not([hidden]) .gist", "1 of 2 done: Fix it");
    }
    tab.screenshot("todos");
    assert_eq!(tab.eval(CONTRAST)[2], json!([]));
    let third = list(&[("Read <b>it</b>", "completed"), ("Fix it", "completed")]);
    fixture.request().call(&[("write_todos", third)]);
    tab.until("!document.querySelector('#todos').checkVisibility()");
    fixture.request().say("It is fixed.");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
