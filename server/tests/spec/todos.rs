//! The model's todo list over HTTP.

use loopwright_core::testing::Script;
use serde_json::{Value, json};

use crate::api::{Api, Frame};

fn todos(status: &str) -> Value {
    json!([{ "content": "Count the sheep", "status": status }])
}

fn write(call: &str, status: &str) -> Script {
    Script::calls([(call, "write_todos", json!({ "todos": todos(status) }))])
}

/// C520: The status of a session has the list, also where the session is not open, and events have
/// it in the details of the result.
#[tokio::test(start_paused = true)]
async fn the_list_is_part_of_the_status_of_a_session() {
    let replies = [
        write("c1", "in_progress"),
        Script::text("I count."),
        write("c2", "completed"),
        Script::text("Nine."),
    ];
    let api = Api::new(replies);
    let id = api.session(json!({})).await;
    let path = format!("/api/sessions/{id}");
    assert_eq!(api.get(&path).await["todos"], json!([]));
    let mut seen = None;
    for status in ["in_progress", "completed"] {
        api.say(&id, "Count.").await;
        let frames = api.run(&id, seen).await;
        seen = frames.last().unwrap().id;
        let is_end = |frame: &&Frame| frame.data["type"] == "tool_execution_end";
        let details = &frames.iter().rfind(is_end).unwrap().data["result"]["details"];
        assert_eq!(details["todos"], todos(status));
        for api in [api.clone(), Api::over(api.store.clone(), [])] {
            assert_eq!(api.get(&path).await["todos"], todos(status));
        }
    }
}

/// C518: A session can be without the tool, from its start or later.
#[tokio::test(start_paused = true)]
async fn the_list_can_be_switched_off() {
    let api = Api::new([write("c1", "pending"), Script::text("No.")]);
    let id = api.session(json!({ "todos": false })).await;
    api.say(&id, "Count.").await;
    api.run(&id, None).await;
    let path = format!("/api/sessions/{id}");
    assert_eq!(api.get(&path).await["todos"], json!([]), "there is no such tool");
    let (status, changed) = api.call("PATCH", &path, Some(json!({ "todos": true }))).await;
    assert_eq!((status, &changed["session"]["settings"]["todos"]), (200, &json!(true)));
}
