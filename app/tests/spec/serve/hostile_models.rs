//! Hostile model servers, whose address a client of `serve` has named.

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::{Exchange, Server};
use serde_json::{Value, json};

use super::Served;

/// Maximum growth of the process's memory while a reply arrives.
#[cfg(target_os = "linux")]
const MAX_GROWTH_KIB: u64 = 512 * 1024;
/// A size beyond all bounds.
const ENDLESS_BYTES: usize = 1 << 30;

/// Returns the message of the `error` frame, after which the stream is complete.
fn error(connection: &mut Connection) -> String {
    let events = connection.events();
    assert_eq!(events.last().unwrap()["type"], "complete", "{events:?}");
    let error = events.iter().find(|event| event["type"] == "error");
    error.unwrap_or_else(|| panic!("{events:?}"))["message"].as_str().unwrap().to_owned()
}

/// Sends `part` until the client hangs up.
fn send_without_end(request: &mut Exchange, part: &[u8]) {
    let mut sent = 0;
    while request.raw(part) {
        sent += part.len();
        assert!(sent < ENDLESS_BYTES, "{sent} bytes were read");
    }
}

/// C263: a line, a reply and calls without end, and compressed data, end the run with an error. The
/// server does not keep them, and answers the next request.
#[test]
fn a_model_server_cannot_fill_the_memory() {
    let served = Served::start(&["--max-attempts", "1"]);
    let text = json!({ "choices": [{ "index": 0, "delta": { "content": "x".repeat(1 << 16) } }] });
    let text = format!("data: {text}\n\n");
    let line = vec![b'x'; 1 << 20];
    let calls: Vec<Value> = (0..1_100)
        .map(|index| {
            let function = json!({ "name": "read_file", "arguments": "{}" });
            json!({ "index": index, "id": format!("c{index}"), "function": function })
        })
        .collect();
    let calls = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": calls } }] });
    let calls = format!("data: {calls}\n\n");
    let packed = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\
                  connection: close\r\n\r\n";
    type Attack<'a> = Box<dyn Fn(&mut Exchange) + 'a>;
    let attacks: [(&str, Attack<'_>); 4] = [
        (
            "an event of more than",
            Box::new(|request| {
                request.begin();
                request.raw(b"data: ");
                send_without_end(request, &line);
            }),
        ),
        (
            "longer than 6291456 bytes",
            Box::new(|request| {
                request.begin();
                send_without_end(request, text.as_bytes());
            }),
        ),
        (
            "more than 1024 calls",
            Box::new(|request| {
                request.begin();
                request.raw(calls.as_bytes());
            }),
        ),
        (
            "compressed with gzip",
            Box::new(|request| {
                request.raw(packed.as_bytes());
                send_without_end(request, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
            }),
        ),
    ];
    #[cfg(target_os = "linux")]
    let before = peak_kib(&served);
    for (expected, attack) in attacks {
        let mut connection = served.ask("Hello", &json!({}));
        let mut request = served.model.request();
        attack(&mut request);
        drop(request);
        let message = error(&mut connection);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    #[cfg(target_os = "linux")]
    {
        let growth = peak_kib(&served) - before;
        println!("{growth} KiB more at most");
        assert!(growth < MAX_GROWTH_KIB, "{growth} KiB more");
    }
    let mut connection = served.ask("Hello", &json!({}));
    served.model.request().say("Still here.");
    assert_eq!(connection.event_of("content")["content"], "Still here.");
}

/// Returns the peak of the process's memory, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// C263: a model's server cannot redirect the server.
#[test]
fn a_redirect_is_not_followed() {
    let served = Served::start(&["--max-attempts", "1"]);
    let inner = Server::start();
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Again", "308 Moved"] {
        let mut connection = served.ask("Hello", &json!({}));
        let status = format!("{status}\r\nlocation: {}/chat/completions", inner.url);
        served.model.request().answer(&status, &json!({}));
        assert!(error(&mut connection).contains("HTTP 30"));
    }
    assert!(inner.is_unasked());
}
