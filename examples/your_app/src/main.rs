//! A binary with its own agent: `acme` pays invoices in chats, scripts and on a page.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright::memory::Jsonl;
use loopwright::tool::{Approval, Effect};
use loopwright::{
    AgentBuilder, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, ToolError,
    tool_fn,
};
use loopwright_cli::{AgentRejection, AgentSetup, App};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Invoice {
    number: u32,
}
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Payment {
    to: String,
    euros: f64,
}

/// A pattern that answers and calls tools, until the model asks for none.
struct Clerk;

#[async_trait]
impl BehaviorPattern for Clerk {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            let reply = step.ask().await?;
            step.call_tools(&reply).await?.or_end()?; // ends the step if a payment waits
            if !reply.has_calls() {
                return reply.finish();
            }
        }
    }
}

fn billing(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let find = tool_fn("find_invoice", "Finds an invoice.", async |invoice: Invoice, _| {
        Ok::<_, ToolError>(format!("Invoice {}: 99 € to Alpha.", invoice.number))
    });
    let pay = tool_fn("pay", "Pays.", async |payment: Payment, _| {
        Ok::<_, ToolError>(format!("Paid {} € to {}.", payment.euros, payment.to))
    });
    let pay = pay.approval(Approval::when(|a, _| a["euros"].as_f64() > Some(100.0)));
    let agent = GenericAgent::builder(setup.model()?, Clerk).system("You pay invoices.");
    Ok(agent.tool(find.effect(Effect::ReadOnly)).tool(pay))
}

fn main() -> ExitCode {
    App::new("acme")
        .about("Pays invoices")
        .agent("billing", billing)
        .store(|path| Ok(Arc::new(Jsonl::open(path.unwrap_or("acme-sessions".as_ref()))?)))
        .run()
}
