//! The work with loopwright: an agent, a pattern, a provider, a tool and a reader of the events.

use std::sync::Arc;

use loopwright_core::event::{InputEvent, Role, RunStatus};
use loopwright_core::limits::Budget;
use loopwright_core::model::Update;
use loopwright_core::tool::Effect;
use loopwright_core::{AgentEvent, GenericAgent, ToolError, tool_fn};
use loopwright_patterns::PiPattern;
use loopwright_providers::OpenAiChat;

use crate::client::{self, Done, Tally, Work};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

pub(crate) fn run(base: &str, work: Work) -> Done {
    let model =
        OpenAiChat::builder("mock").base_url(base).api_key("none").build().expect("a model");
    let add = tool_fn("add", "Add two integers.", async |args: Add, _cx| {
        Ok::<_, ToolError>((args.a + args.b).to_string())
    });
    let agent = GenericAgent::builder(model, PiPattern)
        .system("You add numbers with the tool.")
        .tool(add.effect(Effect::ReadOnly))
        .limits(Budget::default().turns(u32::MAX))
        .build()
        .expect("an agent");
    client::run(work, |tally, _: Option<()>| converse(agent.clone(), tally))
}

/// Sends one prompt, and reads all events until the end.
async fn converse(agent: GenericAgent, tally: Arc<Tally>) {
    let handle = agent.session().await.expect("a session");
    let mut events = handle.subscribe();
    let prompt = InputEvent::UserRequest("Add numbers until done.".into());
    handle.send(prompt).await.expect("a request");
    let (mut deltas, mut chars) = (0, 0);
    while let Some(event) = events.next().await {
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
