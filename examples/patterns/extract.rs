//! `Extract`: the answer is a value of a Rust type.
//!
//! The first reply of the model lacks a field. It is sent back with the errors. Only the second
//! reply is added to the conversation, and the program reads the value from it.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::patterns::Extract;
use loopwright::testing::{Script, ScriptedModel};

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Invoice {
    number: String,
    cents: u64,
    /// The day on which it is due, as in 2026-12-31.
    due: String,
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let replies = [
        r#"{"number": "R-17", "cents": 4990}"#,
        r#"{"number": "R-17", "cents": 4990, "due": "2026-12-01"}"#,
    ];
    let model = ScriptedModel::new(replies.map(Script::text));
    let agent = GenericAgent::builder(model.clone(), Extract::<Invoice>::new()).build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Invoice R-17: 49.90 €, payable by 1 December 2026.").await?;

    let requests = model.requests();
    let sent_back = requests[1].messages.last().map(|message| message.text()).unwrap_or_default();
    println!("sent back: {sent_back}");
    let invoice: Invoice = serde_json::from_str(&outcome.text)?;
    println!("{invoice:?}");
    let expected = Invoice { number: "R-17".into(), cents: 4990, due: "2026-12-01".into() };
    assert_eq!(invoice, expected);
    assert!(sent_back.contains("due"));
    assert_eq!(handle.state().await?.messages.len(), 2);
    Ok(())
}
