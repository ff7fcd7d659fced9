//! Pages of other origins, in a real browser: only origins that the operator has named use the API.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use loopwright_test_support::browser::Tab;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const TOKEN: &str = "a-token-of-32-characters-0123456";

/// Serves an empty page, and returns its origin.
fn other_page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let page = "<!doctype html><title>Another page</title>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    origin
}

/// Sends a request from the page. Returns the status and the body, or the browser's refusal.
fn fetch(tab: &Tab, url: &str, method: &str, body: &Value) -> Value {
    let headers =
        json!({ "authorization": format!("Bearer {TOKEN}"), "content-type": "application/json" });
    let body = if body.is_null() { Value::Null } else { json!(body.to_string()) };
    let init = json!({ "method": method, "headers": headers });
    tab.eval(&format!(
        "fetch({}, {{ ...{init}, body: {body} ?? undefined }})
            .then(async (answer) => [answer.status, await answer.json()])
            .catch((error) => error.name)",
        json!(url)
    ))
}

/// C198: A page of an origin that `--origin` names uses the API with the token; others cannot.
#[test]
fn only_named_origins_use_the_api() {
    let (named, other) = (other_page(), other_page());
    let fixture = Fixture::with(&["--token", TOKEN, "--origin", &named]);
    let sessions = format!("{}/api/sessions", fixture.url.trim_end_matches('/'));
    let tab = fixture.tab_at(&named);
    assert_eq!(fetch(&tab, &sessions, "GET", &Value::Null), json!([200, { "sessions": [] }]));
    let created = fetch(&tab, &sessions, "POST", &json!({}));
    assert_eq!(created[0], 201, "{created}");
    let session = format!("{sessions}/{}", created[1]["id"].as_str().unwrap());
    let refused = fetch(&tab, &format!("{session}/prompt"), "POST", &json!({ "message": " " }));
    assert_eq!((&refused[0], &refused[1]["error"]["kind"]), (&json!(400), &json!("bad_request")));

    let tab = fixture.tab_at(&other);
    for (method, body) in [("GET", Value::Null), ("POST", json!({}))] {
        assert_eq!(fetch(&tab, &sessions, method, &body), json!("TypeError"), "{method}");
    }
    let tab = fixture.tab_at(&named);
    let listed = fetch(&tab, &sessions, "GET", &Value::Null);
    assert_eq!(listed[1]["sessions"].as_array().unwrap().len(), 1, "{listed}");
}
