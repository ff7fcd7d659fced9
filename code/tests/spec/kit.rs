//! Helpers: the interpreter of the tests, replies with scripts, tools.

use loopwright_code::{CodeMode, Interpreter};
use loopwright_core::log::LogEntry;
use loopwright_core::message::MessageKind;
use loopwright_core::testing::{Harness, Script};
use loopwright_core::tool::{Approval, Tool};
use loopwright_core::{AgentBuilder, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) fn interpreter() -> Interpreter {
    Interpreter::program(env!("CARGO_BIN_EXE_loopwright-script"))
}

pub(crate) fn code_mode() -> CodeMode {
    CodeMode::new(interpreter())
}

/// Returns a reply with this script.
pub(crate) fn script(code: &str) -> Script {
    Script::calls([("s", "run_script", json!({ "code": code }))])
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Order {
    /// The number of the order.
    pub(crate) number: u64,
}

/// Returns a tool that looks an order up. The order 13 does not exist.
pub(crate) fn get_order() -> impl Tool + use<> {
    tool_fn("get_order", "Returns an order as JSON.", async |order: Order, _cx| {
        match order.number {
            13 => Err(ToolError::failed("There is no order 13.")),
            number => Ok(json!({ "customer": format!("c{}", number % 3), "total": number * 10 })),
        }
    })
    .approval(Approval::Never)
}

/// Runs one script and returns the message with its output.
pub(crate) async fn output(code: &str) -> String {
    output_with(code_mode(), code, |agent| agent).await
}

/// Runs one script of this pattern and returns the message with its output.
pub(crate) async fn output_with(
    pattern: CodeMode,
    code: &str,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> String {
    let replies = [script(code), Script::text("Done.")];
    let harness = Harness::new(pattern, replies, |agent| options(agent.tool(get_order()))).await;
    harness.handle.prompt("Go.").await.unwrap();
    harness.check().await;
    let requests = harness.model.requests();
    requests.last().unwrap().messages.last().unwrap().text()
}

/// Returns the calls that scripts have made, in batches: the tools and their arguments.
pub(crate) fn batches(log: &[LogEntry]) -> Vec<Vec<(String, Value)>> {
    let batch = |entry: &LogEntry| match entry {
        LogEntry::Called { message, hidden: true, .. } => match &message.body {
            MessageKind::Assistant(calls) => {
                let call = |call: &loopwright_core::message::ToolCall| {
                    (call.name.to_string(), call.parse_arguments().unwrap())
                };
                Some(calls.calls().map(call).collect())
            }
            _ => None,
        },
        _ => None,
    };
    log.iter().filter_map(batch).collect()
}
