//! C208: A reader can start near the end of a session, and read the rest in pages. It sees the same
//! events as a reader of everything.

use loopwright_core::testing::Script;
use serde_json::{Value, json};

use crate::api::{Api, Frame, numbered};

fn data(frames: &[Frame]) -> Vec<Value> {
    numbered(frames).into_iter().map(|frame| frame.data.clone()).collect()
}

/// Reads all events of an ended session: the last ones, and the earlier ones in pages.
async fn by_pages(api: &Api, session: &str, size: u64) -> (Vec<Value>, usize) {
    let path = format!("/api/sessions/{session}/events?last={size}");
    let mut events = data(&api.stream_of(&path).await.until("agent_end").await);
    let (mut before, mut pages) = (events[0]["seq"].as_u64(), 1);
    while let Some(number) = before.filter(|number| *number > 1) {
        let path = format!("/api/sessions/{session}/history?before={number}&limit={size}");
        let page = api.get(&path).await;
        let mut earlier = page["events"].as_array().unwrap().clone();
        assert!(!earlier.is_empty());
        earlier.extend(events);
        events = earlier;
        before = page["before"].as_u64();
        assert_eq!(events[0]["seq"].as_u64(), Some(before.unwrap_or(1)));
        pages += 1;
    }
    (events, pages)
}

fn reads(call: &str) -> Script {
    Script::new().call(call, "read_file", r#"{"path": "notes.txt"}"#)
}

/// C208: The pages are complete, and each starts with a run or a turn.
#[tokio::test(start_paused = true)]
async fn the_pages_of_a_session_are_all_of_it() {
    let turns = (0..10).map(|n| reads(&format!("c{n}")));
    let api = Api::new(turns.chain([Script::text("Nine.")]));
    let id = api.session(json!({})).await;
    api.say(&id, "How many sheep?").await;
    api.run(&id, None).await;
    let all = data(&api.run(&id, None).await); // with the times that are in the log
    for size in [1, 7, 20, 1_000] {
        let (events, pages) = by_pages(&api, &id, size).await;
        assert_eq!(events, all, "{size}");
        assert!(pages <= 1 + all.len() / size as usize);
        assert!(pages > 5 || size > 1, "{pages} pages of {} events", all.len());
    }
    let last = api.stream_of(&format!("/api/sessions/{id}/events?last=1")).await.next().await;
    assert_eq!(last.unwrap().event, "turn_start");
    // A reader that continues is not sent back.
    let path = format!("/api/sessions/{id}/events?last=1&after={}", all.len() - 1);
    assert_eq!(api.stream_of(&path).await.next().await.unwrap().event, "agent_end");
}

/// C208: A reader starts before open work: a pending action, and the calls of its turn.
#[tokio::test(start_paused = true)]
async fn a_reader_starts_before_what_is_open() {
    let writes = Script::new()
        .call("a", "write_file", r#"{"path": "new.txt", "content": "ten"}"#)
        .call("b", "read_file", r#"{"path": "notes.txt"}"#);
    let api = Api::new([reads("c"), writes]);
    let id = api.session(json!({})).await;
    api.say(&id, "Write.").await;
    api.run(&id, None).await;
    let path = format!("/api/sessions/{id}/events?last=1");
    let events = data(&api.stream_of(&path).await.until("agent_end").await);
    assert_eq!((&events[0]["type"], &events[0]["turn"]), (&json!("turn_start"), &json!(2)));
    let all = data(&api.run(&id, None).await);
    assert_eq!(events[..], all[all.len() - events.len()..]);
    assert!(events.iter().any(|event| event["type"] == "external_action"));
}

/// C208: Long events make pages short.
#[tokio::test(start_paused = true)]
async fn a_page_of_long_events_is_short() {
    let long = "sheep ".repeat(20_000);
    let api = Api::new((0..20).map(|_| Script::text(&long)));
    let id = api.session(json!({})).await;
    let mut last = None;
    for _ in 0..20 {
        api.say(&id, "More.").await;
        let frames = api.run(&id, last).await;
        last = frames.iter().filter_map(|frame| frame.id).max().or(last);
    }
    let path = format!("/api/sessions/{id}/events?last=1000");
    let mut reader = api.stream_of(&path).await;
    let first = reader.next().await.unwrap().id.unwrap();
    assert!(first + 20 > last.unwrap(), "{first} of {last:?}");
    for query in ["", "before=x", "before=5&limit=0", "before=5&limit=1001"] {
        let path = format!("/api/sessions/{id}/history?{query}");
        let (status, body) = api.call("GET", &path, None).await;
        assert_eq!((status, &body["error"]["kind"]), (400, &json!("bad_request")), "{query}");
    }
}
