//! AG-UI with `HttpAgent` of `@ag-ui/client`.

use crate::run::{run, serve};
use crate::shepherd;

/// C910: the official client of AG-UI runs an agent with text, reasoning, tools, approvals,
/// questions, sub-agents, stop and a reload in mid-run, and each event fits the schema.
#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_ag_ui_runs_an_agent() {
    let address = serve(shepherd::server()).await;
    run("ag_ui.mjs", &[&address]).await;
}
