//! Servers of commands that deviate from the protocol.

use loopwright_core::message::ResultStatus;
use loopwright_core::testing::Script;
use serde_json::{Value, json};

use super::fake::{Fake, Peer, tool};
use super::{calls, offered, results, session};

/// Returns the result of a call that is answered by this.
async fn answered(
    answer: impl Fn(&Value, &Peer) + Send + Sync + 'static,
) -> (ResultStatus, String) {
    let fake = Fake::new(&[("a", "A.")]).on_call(move |request, peer| answer(&request, peer));
    let client = fake.client();
    let harness = session(&client, calls(&["fake__a"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(fake.starts(), 1);
    results(&harness).await.remove(0)
}

/// Returns the result of a call that is answered by this line, whose `ID` is the id of the call.
async fn answered_by(line: impl Into<Vec<u8>>) -> (ResultStatus, String) {
    let line = line.into();
    answered(move |request, peer| {
        let id = request["id"].to_string();
        let at = line.windows(2).position(|window| window == b"ID");
        let line = match at {
            Some(at) => [&line[..at], id.as_bytes(), &line[at + 2..]].concat(),
            None => line.clone(),
        };
        peer.line(line);
    })
    .await
}

const OK: &str = r#"{"content":[{"type":"text","text":"ok"}]}"#;

/// C458: What is wrong in the frame of an answer is overlooked, if its meaning is clear.
#[tokio::test(start_paused = true)]
async fn odd_frames_are_read() {
    for line in [
        format!(r#"{{"id":ID,"result":{OK}}}"#),
        format!(r#"{{"jsonrpc":"1.0","id":ID,"result":{OK}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":ID,"error":null,"result":{OK}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":ID.0,"result":{OK}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"ID","result":{OK}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":null,"result":{OK}}}"#),
        format!(r#"{{"jsonrpc":"2.0","result":{OK}}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":ID,"result":{OK}}}]"#),
        format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{OK}}}\r"),
        r#"{"jsonrpc":"2.0","id":ID,"result":"ok"}"#.into(),
        r#"{"jsonrpc":"2.0","id":ID,"method":null,"error":null,"result":"ok"}"#.into(),
        r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","result":"ok"}"#.into(),
    ] {
        assert_eq!(answered_by(line.as_str()).await, (ResultStatus::Ok, "ok".into()), "{line}");
    }
    let text = |text: &str| {
        let content = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{content}}}"#)
    };
    let replaced = (ResultStatus::Ok, "x\u{fffd}".to_owned());
    assert_eq!(answered_by(text("x\\ud83d")).await, replaced);
    let mut bytes = text("xB").into_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'B').unwrap();
    bytes[at] = 0xe4;
    assert_eq!(answered_by(bytes).await, replaced);
}

/// C458: An answer that cannot be read ends its call at once, and the model is told why.
#[tokio::test(start_paused = true)]
async fn unreadable_answers_end_their_call() {
    let big = "x".repeat(17 << 20);
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let many = format!("[{}0]", "0,".repeat(300_000));
    for (line, expected) in [
        (format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"v":{deep}}}}}"#), "recursion limit"),
        (format!(r#"{{"jsonrpc":"2.0","result":{{"v":{deep}}},"id":ID}}"#), "recursion limit"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"v":NaN}}"#.into(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","result":{"v":NaN}}"#.into(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["#.into(), "not valid JSON"),
        (format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"v":{many}}}}}"#), "250000 values"),
        (format!(r#"{{"jsonrpc":"2.0","id":ID,"result":"{big}"}}"#), "16777216 bytes"),
        (format!(r#"{{"result":"{big}","id":ID,"jsonrpc":"2.0"}}"#), "16777216 bytes"),
        ("{\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"result\": {}\n}".into(), "several lines"),
        (r#"{"jsonrpc":"2.0","id":ID}"#.into(), "neither a result nor an error"),
        (r#"{"jsonrpc":"2.0","id":ID,"error":null}"#.into(), "neither a result nor an error"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":7}"#.into(), "not the result of a call"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"output":"ok"}}"#.into(), "not the result"),
    ] {
        let (status, text) = answered_by(line.as_str()).await;
        let start = &line[..line.len().min(80)];
        assert_eq!(status, ResultStatus::Error, "{start}");
        assert!(text.contains(expected) && text.contains("may have had effects"), "{start} {text}");
    }
}

/// C458: The error of a call is told, whatever the form of its code and message.
#[tokio::test(start_paused = true)]
async fn odd_errors_are_told() {
    for (error, expected) in [
        (r#""id":ID,"error":{"code":"E_FAIL","message":"bad thing"}"#, "E_FAIL: bad thing"),
        (r#""id":ID,"error":{"code":-32602.0,"message":"bad thing"}"#, "bad thing (-32602)"),
        (r#""id":null,"error":{"code":-1,"message":"bad thing"}"#, "bad thing (-1)"),
        (r#""id":ID,"error":{"message":{"why":"bad thing"}}"#, "bad thing"),
        (r#""id":ID,"error":{"code":1e300}"#, "does not say why"),
        (r#""id":ID,"error":"bad thing""#, "bad thing"),
    ] {
        let (status, text) = answered_by(format!(r#"{{"jsonrpc":"2.0",{error}}}"#)).await;
        assert!(status == ResultStatus::Error && text.contains(expected), "{error} {text}");
    }
}

/// C458: What a server logs to its standard output answers no call.
#[tokio::test(start_paused = true)]
async fn noise_answers_no_call() {
    let answer = answered(|request, peer| {
        let id = &request["id"];
        for noise in [
            String::new(),
            "Server started.".into(),
            "null".into(),
            "{".into(),
            format!(r#"[debug] {{"jsonrpc":"2.0","id":{id},"result":{{"v":NaN}}}}"#),
            format!(r#"{{"level":"info","id":{id},"result":"sent","error":null}}"#),
            r#"{"level":"error","error":{"why":"disk"}}"#.into(),
            format!(r#"{{"level":"error","id":{id},"error":{{"why":"disk"}}}}"#),
            format!("{{ msg: 'got', body: '{{\"jsonrpc\":\"2.0\",\"id\":{id}}}' }}"),
            serde_json::to_string_pretty(request).unwrap(),
            r#"{"jsonrpc":"2.0"}"#.into(),
            r#"{"jsonrpc":"2.0","id":77,"result":{"v":NaN}}"#.into(),
            r#"{"jsonrpc":"2.0","id":77,"result":{}}"#.into(),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"v":NaN}}}}"#),
            "x".repeat(17 << 20),
        ] {
            peer.line(noise);
        }
        peer.text(request, "ok");
    });
    assert_eq!(answer.await, (ResultStatus::Ok, "ok".into()));
}

/// C459: A part of a result that cannot be read loses only that part.
#[tokio::test(start_paused = true)]
async fn a_part_of_a_result_that_cannot_be_read_is_left_out() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    for (result, expected) in [
        (
            json!({ "content": [text("a"), { "type": "hologram" }, text("b")] }),
            "a[Content of type hologram, which cannot be read, is left out.]b",
        ),
        (
            json!({ "content": [{ "type": "text", "text": null }, text("b")] }),
            "[Content of type text, which cannot be read, is left out.]b",
        ),
        (json!({ "content": [{ "type": "text", "text": "a", "annotations": 7 }] }), "a"),
        (json!({ "content": [{ "type": "resource", "resource": { "text": "a" } }] }), "a"),
        (json!({ "content": ["a", text("b")] }), "ab"),
        (json!({ "content": "a" }), "a"),
        (json!({ "content": text("a") }), "a"),
        (json!({ "content": null, "structuredContent": { "a": 1 } }), r#"{"a":1}"#),
        (json!({ "content": [text("a")], "tools": [], "resources": [], "_meta": 7 }), "a"),
        (json!({ "content": [text("a")], "isError": "no" }), "a"),
        (json!({}), "The result is empty."),
        (json!(null), "The result is empty."),
    ] {
        let sent = result.clone();
        let (status, text) = answered(move |call, peer| peer.reply(call, sent.clone())).await;
        assert_eq!((status, text.as_str()), (ResultStatus::Ok, expected), "{result}");
    }
    for is_error in [json!(true), json!("true"), json!(1)] {
        let result = json!({ "content": [text("boom")], "isError": is_error });
        let answer = answered(move |call, peer| peer.reply(call, result.clone())).await;
        assert_eq!(answer, (ResultStatus::Error, "boom".into()));
    }
}

/// C459: A tool that cannot be read loses only itself, and is named. What is wrong in an optional
/// part of a tool loses only that part.
#[tokio::test(start_paused = true)]
async fn a_malformed_tool_is_left_out_and_named() {
    let tools = [
        json!({ "name": "missing" }),
        json!({ "name": "null", "inputSchema": null }),
        json!({ "name": "true", "inputSchema": true }),
        json!({ "description": "No name.", "inputSchema": { "type": "object" } }),
        json!("tool"),
        json!({ "name": "string", "inputSchema": { "type": "string" } }),
    ];
    let good = [
        json!({ "name": "annotated", "annotations": { "readOnlyHint": "yes" } }),
        json!({ "name": "drawn", "icons": ["x.png"], "title": 5, "description": "D." }),
        json!({ "name": "outer", "outputSchema": true, "execution": 7, "_meta": [] }),
        json!({ "name": "plain", "description": null, "annotations": null }),
    ];
    let good = good.map(|mut tool| {
        tool["inputSchema"] = json!({ "type": "object", "properties": [] });
        tool
    });
    let fake = Fake::default();
    fake.set_tools([tools.to_vec(), good.to_vec(), vec![tool("last", "L.")]].concat());
    let client = fake.client();
    let harness = session(&client, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    let names =
        ["annotated", "drawn", "last", "outer", "plain"].map(|name| format!("fake__{name}"));
    assert_eq!(offered(&harness, 0), names);
    let status = client.status().await;
    assert_eq!(status.tools.len(), 5);
    let left_out = ["`missing`", "`null`", "`true`", "number 4", "number 5", "`string`"];
    assert_eq!(status.left_out.len(), left_out.len());
    for name in left_out {
        let named = status.left_out.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!(named, 1, "{name} {:?}", status.left_out);
    }
    let requests = harness.model.requests();
    let drawn = requests[0].tools.iter().find(|tool| &*tool.name == "fake__drawn").unwrap();
    assert_eq!(drawn.description, "D.");
}
