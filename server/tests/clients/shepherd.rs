//! A server whose agent follows the instructions in messages.

use loopwright_core::error::ModelErrorKind;
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::{MessageKind, Usage};
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::{AskUser, Effect};
use loopwright_core::{GenericAgent, StepContext, StepEnd, StepError};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::json;

/// A pattern that emits a state before each step.
struct Stateful;

#[loopwright_core::async_trait]
impl loopwright_core::BehaviorPattern for Stateful {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.emit("state", json!({ "sheep": 9 })).await?;
        step.emit("weather", json!("rain")).await?;
        PiPattern.next_step(step).await
    }
}

/// Returns a server with the agent `shepherd`. The message `open` releases waiting calls.
pub(crate) fn server() -> Server {
    let model = ScriptedModel::new([]).discard_requests();
    let gate = Gate::new();
    let model = model.reply_with(move |request| reply(request, &gate));
    let count = TestTool::new("count").answers("9");
    let pay = TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce);
    let agent = GenericAgent::builder(model, Stateful)
        .tool(count)
        .tool(pay)
        .tool(AskUser::new())
        .child("helper", "Helps.", helper())
        .build();
    Server::builder(InMemoryStore::new()).agent("shepherd", agent.unwrap()).build().unwrap()
}

fn helper() -> GenericAgent {
    let model = ScriptedModel::new([]).reply_with(|request| match request.messages.last() {
        Some(last) if last.as_tool_result().is_some() => Script::text("I have paid."),
        _ => Script::text("I pay.").call("p", "pay", "{}"),
    });
    let pay = TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce);
    GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap()
}

fn reply(request: &ChatRequest, gate: &Gate) -> Script {
    let last = request.messages.last().unwrap();
    let text = last.text();
    let usage = Usage::new(5, 2);
    if let MessageKind::ToolResult(result) = &last.body {
        return Script::text(&format!("{}: {text}", result.name)).usage(usage);
    }
    match text.as_str() {
        "count" => {
            Script::new().think("Let me see.", None).say("I count.").call("c", "count", "{}")
        }
        "pay" => Script::calls([("p", "pay", json!({ "amount": 3 }))]),
        "pay twice" => {
            Script::calls([("p", "pay", json!({ "to": "a" })), ("q", "pay", json!({ "to": "b" }))])
        }
        "ask" => {
            let question = json!({ "question": "Which colour?", "options": ["red", "blue"] });
            Script::calls([("a", "ask_user", question)])
        }
        "delegate" => Script::calls([("h", "helper", json!({ "task": "Pay." }))]),
        "slow" => Script::new().say("Slowly, ").gate(gate).say("nine."),
        "open" => {
            gate.open();
            Script::text("Open.")
        }
        "hang" => Script::new().say("I hang.").hang(),
        "withdraw" => Script::new().say("Wrong.").withdraw().say("Right."),
        "fail" => Script::error(ModelErrorKind::Auth, "The key is wrong."),
        _ => Script::text("Nine sheep.").usage(usage),
    }
}
