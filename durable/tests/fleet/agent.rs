//! The agent of all workers: a model that reads its work from the request, and tools.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::message::MessageKind;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::{Approval, Effect, ToolContext, tool_with};
use loopwright_core::{GenericAgent, ToolError};
use loopwright_patterns::PiPattern;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::poison;
use crate::records::{Record, Records};

/// Duration of a tool.
const TOOL_TIME: Duration = Duration::from_millis(30);

#[derive(Deserialize, JsonSchema)]
struct Turn {
    turn: u64,
}

/// Returns the reply to `work N, ask at A`: N turns with two calls each, one of which needs
/// approval in turn A. Each reply names the version of the code.
fn reply(request: &ChatRequest, version: usize) -> Script {
    if let Some(reply) = poison::reply(request) {
        return reply;
    }
    let of_user = |body: &MessageKind| matches!(body, MessageKind::User(_));
    let work = request
        .messages
        .iter()
        .rfind(|message| of_user(&message.body) && message.text().starts_with("work"));
    let Some(work) = work else { return Script::text("Nothing to do.") };
    let text = work.text();
    let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let (turns, asks_at) = (numbers[0], numbers.get(1).copied());
    let later = request.messages.iter().filter(|message| message.id > work.id);
    let replies = later.filter(|message| {
        message.as_assistant().is_some_and(|reply| reply.calls().next().is_some())
    });
    let turn = replies.count() as u64;
    if turn >= turns {
        return Script::new().say("All ").say("is ").say("done.");
    }
    let once = if asks_at == Some(turn) { "sign" } else { "once" };
    let id = |name: &str| format!("{}-{turn}-{name}", work.id);
    let arguments = json!({ "turn": turn }).to_string();
    Script::new()
        .say(&format!("Turn {turn} "))
        .say(&format!("by version {version}."))
        .call(&id("once"), once, &arguments)
        .call(&id("look"), "look", &arguments)
}

/// Builds the agent of this version of the code.
pub(crate) fn agent(records: Arc<Records>, version: usize) -> GenericAgent {
    let model = ScriptedModel::new([])
        .discard_requests()
        .reply_with(move |request| reply(request, version));
    let mut agent = GenericAgent::builder(model, PiPattern);
    let tools = [
        ("once", Effect::AtMostOnce, Approval::Never),
        ("sign", Effect::AtMostOnce, Approval::Always),
        ("look", Effect::ReadOnly, Approval::Never),
    ];
    for (name, effect, approval) in tools {
        let call = |records: Arc<Records>, turn: Turn, cx: ToolContext| async move {
            let (session, call) = (cx.session_id().to_string(), cx.call_id().to_string());
            records.add(&Record::Effect { session, call, worker: std::process::id() });
            tokio::time::sleep(TOOL_TIME).await;
            Ok::<_, ToolError>(format!("turn {} is done", turn.turn))
        };
        let tool = tool_with(records.clone(), name, "Does one turn's work.", call);
        agent = agent.tool(tool.effect(effect).approval(approval));
    }
    poison::with_tools(agent, records).build().unwrap()
}
