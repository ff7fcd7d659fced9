//! The AI SDK with `Chat`, `useChat` and `DefaultChatTransport`.

use crate::run::{run, serve};
use crate::shepherd;

/// C911: `Chat` and `useChat` of the AI SDK run an agent with text, reasoning, tools, approvals,
/// questions, stop and a reload in mid-run, and each chunk fits the schema.
#[tokio::test(flavor = "multi_thread")]
async fn the_ai_sdk_runs_an_agent() {
    let address = serve(shepherd::server()).await;
    run("ai_sdk.mjs", &[&address]).await;
}
