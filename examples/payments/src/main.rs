//! Payments that people confirm: by amount, by role, until a deadline, in several processes.

use std::{env, io, process::ExitCode, time::Duration};

use loopwright::hooks::{BeforeToolCall, HookContext, ToolCallInfo};
use loopwright::patterns::PiPattern;
use loopwright::tool::{ActionOptions, ActionRequest, Approval, Effect};
use loopwright::{AgentBuilder, GenericAgent, ToolContext, ToolError, tool_fn};
use loopwright_cli::{AgentRejection, AgentSetup, App};
use tokio::{io::AsyncReadExt, io::AsyncWriteExt, net::TcpStream};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Payment {
    to: String,
    euros: f64,
}
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Ship {
    order: String,
}

/// Sends an order to the bank with its idempotency key, so that the bank detects repetitions.
async fn book(order: String, cx: &ToolContext) -> Result<String, ToolError> {
    let mut bank = TcpStream::connect(env::var("BANK").map_err(io::Error::other)?).await?;
    bank.write_all(format!("{}\t{order}\n", cx.idempotency_key()).as_bytes()).await?;
    let mut receipt = String::new();
    bank.read_to_string(&mut receipt).await?;
    Ok(receipt)
}

async fn confirm(_: HookContext, call: ToolCallInfo) -> BeforeToolCall {
    let role = match call.arguments["euros"].as_f64() {
        None | Some(..=100.0) => return BeforeToolCall::Proceed,
        Some(..=10_000.0) => "treasurer",
        Some(_) => "director",
    };
    let seconds = env::var("DEADLINE").ok().and_then(|text| text.parse().ok()).unwrap_or(86_400);
    let deadline = Duration::from_secs(seconds); // then it is denied
    BeforeToolCall::NeedsApproval(ActionOptions::new().role(role).deadline(deadline))
}

fn payments(cx: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let pay = |name: &'static str, effect| {
        let run = async |a: Payment, cx| book(format!("{} € to {}", a.euros, a.to), &cx).await;
        tool_fn(name, "Pays.", run).effect(effect).approval(Approval::Never)
    };
    let ship = tool_fn("ship", "Ships.", async |a: Ship, cx: ToolContext| match cx.decision() {
        None => Err(ToolError::Suspend(ActionRequest::new("carrier", a.order))),
        Some(answer) => book(format!("{} with {}", a.order, answer.data), &cx).await,
    });
    let ship = ship.effect(Effect::AtMostOnce).approval(Approval::Never);
    let agent = GenericAgent::builder(cx.model()?, PiPattern).before_tool_call(confirm).tool(ship);
    Ok(agent.tool(pay("pay", Effect::AtMostOnce)).tool(pay("pay_idem", Effect::Idempotent)))
}

fn main() -> ExitCode {
    App::new("payments").agent("payments", payments).run()
}
