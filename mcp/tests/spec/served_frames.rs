//! Clients whose requests cannot be read.

use loopwright_core::GenericAgent;
use loopwright_core::testing::ScriptedModel;
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

use super::served_calls::{Client, Host};

async fn client() -> Client {
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    Client::connect(Host::new(agent).0).await
}

/// C461: Each request that cannot be read is answered with its id and the code of its error.
#[tokio::test(start_paused = true)]
async fn requests_that_cannot_be_read_are_answered() {
    let mut client = client().await;
    let deep = "[".repeat(300);
    for (line, id, code) in [
        ("{bad".to_owned(), json!(null), -32700),
        (format!(r#"{{"jsonrpc":"2.0","id":5,"method":"ping","params":{deep}"#), json!(5), -32700),
        (format!(r#"{{"id":"a","x":"{}"}}"#, "x".repeat(17 << 20)), json!("a"), -32700),
        (r#"{"jsonrpc":"2.0","id":6,"method":123}"#.into(), json!(6), -32600),
        (r#"{"jsonrpc":"2.0","id":7}"#.into(), json!(7), -32600),
        (r#"{"id":8,"method":"ping"}"#.into(), json!(8), -32600),
        (r#"{"jsonrpc":"1.0","id":9,"method":"ping"}"#.into(), json!(9), -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.into(), json!(null), -32600),
        ("7".into(), json!(null), -32600),
        ("[]".into(), json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":10,"method":"nothing"}"#.into(), json!(10), -32601),
        (r#"{"jsonrpc":"2.0","id":11,"method":"tools/call"}"#.into(), json!(11), -32602),
        (
            r#"{"jsonrpc":"2.0","id":14,"method":"tools/call","params":[],"result":null}"#.into(),
            json!(14),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":12,"method":"tools/call",
                "params":{"name":"work","arguments":"oops"}}"#
                .replace('\n', ""),
            json!(12),
            -32602,
        ),
    ] {
        let start = line[..line.len().min(90)].to_owned();
        client.line(line).await;
        let reply = client.next().await;
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&id, &json!(code)), "{start} {reply}");
        assert!(reply["error"]["message"].as_str().is_some_and(|why| !why.is_empty()), "{reply}");
    }
}

/// C461: Batches are read, lone surrogates are replaced, and what is no request is not answered.
#[tokio::test(start_paused = true)]
async fn odd_requests_are_read() {
    let mut client = client().await;
    for silent in ["", "\r", r#"{"jsonrpc":"2.0","id":1,"result":5}"#, r#"{"id":1,"error":"x"}"#] {
        client.line(silent).await;
    }
    let ping = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    client.line(json!([ping(1), ping(2), 7]).to_string()).await;
    let mut ids: Vec<Value> = Vec::new();
    for _ in 0..3 {
        ids.push(client.next().await["id"].clone());
    }
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, [json!(1), json!(2), json!(null)]);
    client
        .line(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"\ud83d"}}"#)
        .await;
    let reply = client.next().await.to_string();
    assert!(reply.contains("There is no tool `\u{fffd}`"), "{reply}");
}
