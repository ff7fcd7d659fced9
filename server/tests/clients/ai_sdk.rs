//! The AI SDK with `Chat`, `useChat` and `DefaultChatTransport`.

use std::collections::VecDeque;

use loopwright_protocols::ShownRuns;
use loopwright_protocols::ai_sdk::Encoder;

use crate::recorded;
use crate::run::{run, serve};
use crate::shepherd;

/// C363: `Chat` and `useChat` of the AI SDK run an agent with text, reasoning, tools, approvals,
/// questions, stop and a reload in mid-run. For every kind of session event, the chunks sent
/// conform to the schema.
#[tokio::test(flavor = "multi_thread")]
async fn the_ai_sdk_runs_an_agent() {
    let file = recorded::sent(|run| {
        let encoder = Encoder::new(ShownRuns::up_to(run), serde_json::json!({}));
        (encoder, VecDeque::new())
    });
    run("ai_sdk.mjs", &["", "check", file.path().to_str().unwrap()]).await;
    let address = serve(shepherd::server()).await;
    run("ai_sdk.mjs", &[&address]).await;
}
