//! The daily budget of a server that is killed and started again.

use loopwright_test_support::http::{Connection, Response};
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::{Value, json};

use super::users::{json_of, user};
use crate::BIN;

fn send(address: &str, token: &str, line: &str, body: &Value) -> Response {
    let body = body.to_string();
    let mut connection = Connection::open(address);
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes());
    connection.response().unwrap()
}

/// C307: The use of a deleted session counts on the next server with the store, of either kind.
#[test]
fn a_deleted_session_counts_after_a_kill() {
    for store in ["sessions.db", "sessions/"] {
        let (dir, model) = (project(), Server::start());
        let (ann, ann_user) = user("ann", "");
        let path = dir.path().join(store);
        let args = [
            "serve",
            "--addr",
            "127.0.0.1:0",
            "--user",
            &ann_user,
            "--model",
            "custom/test",
            "--base-url",
            &model.url,
            "--max-daily-tokens",
            "5",
            "--store",
            path.to_str().unwrap(),
        ];
        let start = || {
            let mut process = BIN.start(&dir, &args);
            let address = process.err.word_after("http://");
            (process, address)
        };
        let session = |address: &str| {
            let created = send(address, &ann, "POST /api/sessions", &json!({}));
            format!("/api/sessions/{}", json_of(&created)["id"].as_str().unwrap())
        };
        let prompt = |address: &str, session: &str| {
            let prompt = json!({ "message": "Count." });
            send(address, &ann, &format!("POST {session}/prompt"), &prompt).status
        };
        let (process, address) = start();
        let first = session(&address);
        assert_eq!(prompt(&address, &first), 202);
        model.request().reply_with_usage("Nine.", 5, 5);
        let mut events = Connection::open(&address);
        let request = format!(
            "GET {first}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ann}\r\n\r\n"
        );
        events.send(request.as_bytes());
        assert_eq!(events.head().unwrap().0, 200);
        while !events.frame().unwrap().contains("agent_end") {}
        let delete = || send(&address, &ann, &format!("DELETE {first}"), &json!({})).status;
        let mut deleted = delete();
        while deleted == 409 {
            deleted = delete(); // the run is about to end
        }
        assert_eq!(deleted, 204);
        process.kill();

        let (_process, address) = start();
        let second = session(&address);
        assert_eq!(prompt(&address, &second), 429, "{store}: 5 tokens a day");
    }
}
