//! Tools from functions and methods: `#[tool]` and `#[tools]`, with a typed rule for approvals.
//!
//! `cargo run --example tool_macro`
//!
//! The model reads the doc comments. Methods share the value in the `Arc`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, Tools, tool, tools};
use serde_json::json;

/// Returns the rate between two currencies.
#[tool(read_only)]
fn rate(
    /// The currency to convert from, such as `EUR`.
    from: &str,
    to: &str,
) -> f64 {
    if from == to { 1.0 } else { 1.25 }
}

struct Account {
    euros: AtomicU32,
}

#[tools]
impl Account {
    /// Returns how many euros are in the account.
    #[tool(read_only)]
    fn balance(&self) -> u32 {
        self.euros.load(Ordering::Relaxed)
    }

    /// Sends money to a person.
    #[tool(timeout = "20s", approval = |args: &AccountTransferArgs| args.euros > 100)]
    async fn transfer(&self, to: String, euros: u32) -> Result<String, String> {
        let take = |balance: u32| balance.checked_sub(euros);
        match self.euros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(format!("{euros} € for {to}")),
            Err(balance) => Err(format!("there are only {balance} €")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let transfer = |id, euros| (id, "transfer", json!({"to": "Ann", "euros": euros}));
    let model = ScriptedModel::new([
        Script::calls([
            ("rate", "rate", json!({"from": "EUR", "to": "USD"})),
            transfer("small", 20),
            transfer("big", 500),
        ]),
        Script::calls([("balance", "balance", json!({}))]),
        Script::text("One payment was made."),
    ]);
    let account = Arc::new(Account { euros: 300.into() });
    let agent =
        GenericAgent::builder(model, PiPattern).tool(rate()).tools(account.tools()).build()?;
    let handle = agent.session().await?;
    handle.prompt("Pay my debts.").await?;
    for action in handle.pending().await? {
        println!("{} needs an approval: {}", action.call, action.arguments);
        handle.approve(&action).await?;
    }
    handle.wait_for_idle().await;
    let messages = handle.state().await?.messages;
    for result in messages.iter().filter_map(|message| message.as_tool_result()) {
        println!("{}: {:?}, {}", result.call, result.status, result.text());
    }
    println!("{} € are left", account.balance());
    Ok(())
}
