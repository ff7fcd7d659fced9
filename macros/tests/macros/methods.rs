//! Tools from methods.

use std::sync::{Arc, Mutex};

use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::{Approval, Effect};
use loopwright::{
    BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, ToolContext, ToolError, Tools,
    tools,
};
use serde_json::json;

use crate::functions::call;

#[derive(serde::Serialize)]
struct Receipt {
    to: String,
    euros: u32,
}

#[derive(Default)]
struct Bank {
    paid: Mutex<Vec<(String, u32)>>,
}

#[tools]
impl Bank {
    /// Transfers money.
    #[tool(at_most_once, sequential, approval = |args: &BankTransferArgs| args.euros > 100)]
    async fn transfer(
        &self,
        /// The name of the person who gets it.
        to: String,
        euros: u32,
        cx: ToolContext,
    ) -> Result<Receipt, ToolError> {
        if cx.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        self.paid.lock().unwrap().push((to.clone(), euros));
        Ok(Receipt { to, euros })
    }

    /// Returns how many transfers there were.
    #[tool(read_only, name = "count_transfers")]
    fn count(self: Arc<Self>) -> usize {
        self.paid.lock().unwrap().len()
    }

    /// Forgets the transfers.
    #[loopwright::tool(idempotent, approval = always)]
    fn clear(self: &Arc<Self>) {
        self.paid.lock().unwrap().clear();
    }

    fn total(&self) -> u32 {
        self.paid.lock().unwrap().iter().map(|(_, euros)| euros).sum()
    }
}

/// C320: Methods are tools of a value in an `Arc`, which they share, and stay callable.
#[tokio::test]
async fn methods_are_tools_that_share_a_value() {
    let bank = Arc::new(Bank::default());
    let tools = bank.tools();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.spec().name).collect();
    assert_eq!(names, ["transfer", "count_transfers", "clear"]);
    let spec = tools[0].spec();
    assert_eq!((spec.effect, spec.sequential), (Effect::AtMostOnce, true));
    assert!(matches!(spec.approval, Approval::When(_)));
    let to = &spec.schema["properties"]["to"]["description"];
    assert_eq!(to, "The name of the person who gets it.");

    let receipt = call(&*tools[0], json!({ "to": "Ann", "euros": 20 })).await;
    assert_eq!(receipt.unwrap(), r#"{"to":"Ann","euros":20}"#);
    bank.transfer("Bo".into(), 5, ToolContext::detached()).await.unwrap();
    assert_eq!(call(&*tools[1], json!({})).await.unwrap(), "2");
    assert_eq!(bank.total(), 25);
    assert_eq!(call(&*tools[2], json!({})).await.unwrap(), "Done.");
    assert_eq!(bank.total(), 0);
}

/// A value of a generic type.
struct Store<T>(T);

#[tools]
impl<T: Send + Sync + 'static> Store<T>
where
    T: std::fmt::Display,
{
    /// Returns the value.
    #[tool(read_only)]
    fn get(&self) -> String {
        self.0.to_string()
    }
}

/// C320: The type can be generic.
#[tokio::test]
async fn the_type_can_be_generic() {
    let tools = Arc::new(Store(7)).tools();
    assert_eq!(call(&*tools[0], json!({})).await.unwrap(), "7");
}

struct Once;

#[loopwright::async_trait]
impl BehaviorPattern for Once {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            let reply = step.ask().await?;
            if !step.call_tools(&reply).await?.wants_reply() {
                return reply.finish();
            }
        }
    }
}

/// C320: An agent runs the tools, and checks their arguments first.
#[tokio::test(start_paused = true)]
async fn an_agent_runs_them() {
    let bank = Arc::new(Bank::default());
    let model = ScriptedModel::new([
        Script::calls([("a", "transfer", json!({ "to": "Ann", "euros": 20 }))]),
        Script::calls([("b", "transfer", json!({ "to": "Ann", "euros": -20 }))]),
        Script::text("Paid."),
    ]);
    let agent = GenericAgent::builder(model.clone(), Once).tools(bank.tools()).build().unwrap();
    assert_eq!(agent.prompt("Pay.").await.unwrap().text, "Paid.");
    assert_eq!(bank.total(), 20);
}
