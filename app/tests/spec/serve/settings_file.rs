//! A server whose users, origin, proxy, webhook and daily budget are in its settings file.

use loopwright_test_support::http::{Connection, Response};
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::{Value, json};

use super::users::{json_of, user};
use crate::BIN;

/// The secret of the webhook: 32 bytes in Base64.
const SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// Sends a request from a page behind a proxy.
fn send(address: &str, token: &str, line: &str, body: &Value) -> Response {
    let body = body.to_string();
    let mut connection = Connection::open(address);
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nOrigin: \
         https://app.example.org\r\nX-Forwarded-For: 203.0.113.9\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes());
    connection.response().unwrap()
}

/// Waits for a delivery of the webhook, and returns its id and its body. `accept` answers it;
/// otherwise the connection breaks.
fn delivery(hook: &Server, accept: bool) -> (String, Value) {
    let exchange = hook.request();
    let id = exchange.head.split("webhook-id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let body = exchange.body.clone();
    if accept {
        exchange.answer("200 OK", &json!({}));
    }
    (id, body)
}

/// C296: The settings of the file apply. After a kill and a restart of the server, the webhook gets
/// what it was not sent before.
#[test]
fn a_settings_file_configures_users_and_the_webhook() {
    let (dir, model, hook) = (project(), Server::start(), Server::start());
    let (ann, ann_user) = user("ann", "");
    let (tom, tom_user) = user("tom", "approver");
    let settings = format!(
        "model = \"custom/test\"\nbase_url = \"{}\"\n[serve]\naddr = \"127.0.0.1:0\"\nuser = \
         [\"{ann_user}\", \"{tom_user}\"]\norigin = \"https://app.example.org\"\ntrusted_proxy = \
         \"127.0.0.1\"\nwebhook = \"{}\"\nmax_daily_tokens = 5\n",
        model.url, hook.url
    );
    let file = dir.path().join("own.toml");
    std::fs::write(&file, settings).unwrap();
    let vars = [
        ("LOOPWRIGHT_CONFIG", file.to_str().unwrap()),
        ("LOOPWRIGHT_WEBHOOK_SECRET", SECRET),
        ("PATH", "/usr/bin:/bin"),
    ];
    let start = || {
        let mut process = BIN.start_with(&dir, &["serve"], &vars);
        let address = process.err.word_after("http://");
        (process, address)
    };
    let (process, address) = start();
    let created = send(&address, &ann, "POST /api/sessions", &json!({ "confirm": true }));
    assert_eq!(created.status, 201, "{created:?}");
    assert!(created.head.contains("access-control-allow-origin: https://app.example.org"));
    let path = format!("/api/sessions/{}", json_of(&created)["id"].as_str().unwrap());
    let prompt = |address: &str| {
        let prompt = json!({ "message": "Write." });
        send(address, &ann, &format!("POST {path}/prompt"), &prompt).status
    };
    assert_eq!(prompt(&address), 202);
    let write = || json!({ "path": "a.txt", "content": "x" });
    model.request().call(&[("write_file", write())]);
    let (_, pending) = delivery(&hook, true);
    assert_eq!(pending["action"]["name"], "write_file", "{pending}");
    let call = pending["action"]["call"].as_str().unwrap();
    let body = json!({ "digest": pending["action"]["digest"], "decision": "deny" });
    let denied = send(&address, &tom, &format!("POST {path}/actions/{call}"), &body);
    assert_eq!(denied.status, 200, "{denied:?}");
    let (_, resolved) = delivery(&hook, true);
    assert_eq!(
        (&resolved["decision"]["by"], &resolved["decision"]["source"]),
        (&json!("tom"), &json!("http from 203.0.113.9"))
    );
    model.request().call(&[("write_file", write())]);
    let (_, pending) = delivery(&hook, true);
    assert_eq!(pending["type"], "pending", "{pending}");
    let removed = send(&address, &ann, &format!("DELETE {path}"), &json!({}));
    assert_eq!(removed.status, 204, "{removed:?}");
    let (unsent, withdrawn) = delivery(&hook, false);
    assert_eq!((&withdrawn["type"], withdrawn.get("decision")), (&json!("resolved"), None));
    process.kill();

    let (_process, address) = start();
    assert_eq!(delivery(&hook, true), (unsent, withdrawn), "the same again");
    let audit = json_of(&send(&address, &tom, "GET /api/audit", &json!({})));
    assert_eq!(audit["decisions"][0]["source"], "http from 203.0.113.9", "{audit}");
    let created = send(&address, &ann, "POST /api/sessions", &json!({}));
    let path = format!("/api/sessions/{}", json_of(&created)["id"].as_str().unwrap());
    let prompt = |line: &str| {
        let prompt = json!({ "message": "Count." });
        send(&address, &ann, &format!("POST {path}/{line}"), &prompt).status
    };
    assert_eq!(prompt("prompt"), 202);
    model.request().reply_with_usage("Nine.", 5, 5);
    let mut events = Connection::open(&address);
    events.send(
        format!(
            "GET {path}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ann}\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(events.head().unwrap().0, 200);
    while !events.frame().unwrap().contains("agent_end") {}
    assert_eq!(prompt("prompt"), 429, "5 tokens a day");
}
