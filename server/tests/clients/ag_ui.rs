//! AG-UI with `HttpAgent` of `@ag-ui/client`.

use std::collections::VecDeque;

use loopwright_protocols::ShownRuns;
use loopwright_protocols::ag_ui::Encoder;

use crate::recorded;
use crate::run::{run, serve};
use crate::shepherd;

/// C362: The official client of AG-UI runs an agent with text, reasoning, tools, approvals,
/// questions, sub-agents, stop and a reload in mid-run. For every kind of session event, the events
/// sent conform to the protocol's schema.
#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_ag_ui_runs_an_agent() {
    let file = recorded::sent(|run| {
        let encoder = Encoder::new("t", "r", ShownRuns::up_to(run)).show_request();
        let mut ready = VecDeque::new();
        encoder.start(None, &mut ready);
        (encoder, ready)
    });
    run("ag_ui.mjs", &["", "check", file.path().to_str().unwrap()]).await;
    let address = serve(shepherd::server()).await;
    run("ag_ui.mjs", &[&address]).await;
}
