//! The work with loopwright: an agent, a pattern, a provider, a tool and a reader of the events.

use std::sync::Arc;

use loopwright_core::agent::Limits;
use loopwright_core::event::{InputEvent, Role, RunStatus, Update};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentEvent, GenericAgent, RunContext, ToolError, tool_fn};
use loopwright_otel::Telemetry;
use loopwright_patterns::PiPattern;
use loopwright_providers::OpenAiChat;

use crate::client::{self, Done, Tally, Work};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

pub(crate) fn run(base: &str, work: Work) -> Done {
    let agent = agent(base);
    client::run(work, |tally, _: Option<()>| {
        let agent = agent.clone();
        async move { converse(agent, None, tally).await }
    })
}

pub(crate) fn agent(base: &str) -> GenericAgent {
    let model =
        OpenAiChat::builder("mock").base_url(base).api_key("none").build().expect("a model");
    let add = tool_fn("add", "Add two integers.", async |args: Add, _cx| {
        Ok::<_, ToolError>((args.a + args.b).to_string())
    });
    GenericAgent::builder(model, PiPattern)
        .system("You add numbers with the tool.")
        .tool(add.effect(Effect::ReadOnly))
        .limits(Limits::default().turns(u32::MAX))
        .build()
        .expect("an agent")
}

/// Sends one prompt, and reads all events until the end.
pub(crate) async fn converse(
    agent: GenericAgent,
    telemetry: Option<&Telemetry>,
    tally: Arc<Tally>,
) {
    let cx = match telemetry {
        Some(telemetry) => RunContext::new().with(telemetry.trace_context(None, None)),
        None => RunContext::new(),
    };
    let (handle, mut events) = agent.run(cx).await.expect("a session");
    let mut exported = None;
    if let Some(telemetry) = telemetry {
        exported = Some(telemetry.session("adder", &handle.state().await.expect("a state")));
    }
    let prompt = InputEvent::UserRequest("Add numbers until done.".into());
    handle.send(prompt).await.expect("a request");
    let (mut deltas, mut chars) = (0, 0);
    while let Some(event) = events.next().await {
        if let Some(session) = &mut exported {
            session.apply(&event);
        }
        match &event.event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                deltas += 1;
                chars += delta.len() as u64;
            }
            AgentEvent::MessageEnd { message } if message.role() == Role::Assistant => {
                tally.turn(std::mem::take(&mut deltas), std::mem::take(&mut chars));
            }
            AgentEvent::AgentEnd(outcome) => {
                assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
                return;
            }
            _ => {}
        }
    }
    panic!("the session ended before its run");
}
