//! A cassette of an agent whose model is behind a real socket, replayed after the server has
//! stopped.

use loopwright_core::testing::{Cassette, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{GenericAgent, RunContext};
use loopwright_patterns::PiPattern;
use loopwright_providers::OpenAiChat;

use crate::server::Server;

const KEY: &str = "sk-very-secret";

fn chunk(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

/// Runs a session and returns its last reply and the deltas of all replies.
async fn session(cassette: &Cassette, url: &str, look: TestTool) -> (String, Vec<String>) {
    let model = OpenAiChat::builder("m").base_url(url).api_key(KEY).key_var("TEST_KEY").build();
    let agent = GenericAgent::builder(model.unwrap(), PiPattern).tool(look);
    let agent = cassette.agent(agent.system("You look first.").build().unwrap());
    let (handle, mut events) = agent.run(RunContext::new()).await.unwrap();
    let outcome = handle.prompt("How warm is it?").await.unwrap();
    assert_eq!(outcome.error, None);
    drop(handle);
    let mut deltas = Vec::new();
    while let Some(event) = events.next().await {
        let event = serde_json::to_value(&*event).unwrap();
        if event["type"] == "message_update" {
            deltas.push(event["update"].to_string());
        }
    }
    cassette.finish().unwrap();
    (outcome.text, deltas)
}

/// C174: Replies over HTTP are replayed with the same deltas after the server has stopped. The file
/// contains neither the key nor a header.
#[tokio::test]
async fn a_session_over_http_is_replayed_without_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let look = TestTool::new("look").effect(Effect::ReadOnly).answers("21");
    let server = Server::start().await;
    let url = server.url();
    let serve = async {
        let call =
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":"{}"}}]}"#;
        let mut http = server.accept().await;
        assert!(http.head.contains("authorization: bearer sk-very-secret"));
        http.begin().await;
        http.chunk(&chunk(call)).await;
        http.chunk("data: [DONE]\n\n").await;
        http.end().await;
        let mut http = http.next().await;
        assert_eq!(http.body["messages"][3]["content"], "21");
        http.begin().await;
        for part in ["It is ", "21 ", "°C."] {
            http.chunk(&chunk(&serde_json::json!({ "content": part }).to_string())).await;
        }
        http.chunk("data: [DONE]\n\n").await;
        http.end().await;
    };
    let cassette = Cassette::record(&path).unwrap();
    let (recorded, ()) = tokio::join!(session(&cassette, &url, look.clone()), serve);
    assert_eq!((&*recorded.0, look.ran()), ("It is 21 °C.", 1));
    drop(server);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(KEY) && !text.to_lowercase().contains("authorization"), "{text}");
    let replayed = session(&Cassette::replay(&path).unwrap(), &url, look.clone()).await;
    assert_eq!((replayed, look.ran()), (recorded, 1));
}
