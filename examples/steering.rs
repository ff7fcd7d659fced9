//! Steering: messages that the user sends during a run.
//!
//! `cargo run --example steering`
//!
//! A *steer* is delivered before the next request, here after the running tool. A *follow-up* waits
//! until the agent would stop. A steer with `Urgency::Interrupt` ends the streaming reply. The text
//! received so far stays in the conversation.

use std::error::Error;
use std::time::Duration;

use loopwright::event::{InputEvent, Prompt, Urgency};
use loopwright::model::Update;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestTool};
use loopwright::{AgentEvent, GenericAgent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Streams a reply word by word.
    let slowly = |text: &str| {
        let words: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
        Script::new().stream(words, Duration::from_millis(10))
    };
    let model = ScriptedModel::new([
        Script::new().say("Let me check. ").call("a", "search", "{}"),
        slowly("The history of tea begins a very long time ago, in a garden far away, when ")
            .wait(Duration::from_secs(60)),
        slowly("Tea is from China."),
        slowly("It is drunk hot."),
    ]);
    let search = TestTool::new("search").takes(Duration::from_millis(50));
    let agent = GenericAgent::builder(model, PiPattern).tool(search).build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();

    handle.send(InputEvent::UserRequest("Tell me about tea.".into())).await?;
    let mut words = 0;
    while let Some(event) = events.next().await {
        match &event.event {
            AgentEvent::ToolExecutionStart { .. } => {
                handle.steer("Its history, please.").await?;
                handle.follow_up("And how is it drunk?").await?;
            }
            AgentEvent::MessageUpdate { update: Update::Text { .. }, .. } => {
                words += 1;
                if words == 8 {
                    handle.steer(Prompt::from("Shorter!").urgency(Urgency::Interrupt)).await?;
                }
            }
            AgentEvent::MessageEnd { message } if message.as_tool_result().is_none() => {
                let stop = message
                    .as_assistant()
                    .map(|reply| format!(" ({:?})", reply.stop))
                    .unwrap_or_default();
                println!("{:?}: {}{stop}", message.role(), message.text());
            }
            AgentEvent::AgentEnd(outcome) => {
                println!("{:?}", outcome.end);
                break;
            }
            _ => {}
        }
    }
    Ok(())
}
