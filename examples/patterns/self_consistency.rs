//! `SelfConsistency`: the answer that most samples give.
//!
//! A bat and a ball cost 1.10 € together, and the bat costs 1 € more than the ball. One of three
//! samples falls for the obvious answer, and is outvoted.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::patterns::SelfConsistency;
use loopwright::testing::{Script, ScriptedModel};
use serde_json::json;

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let samples = [
        json!({"reasoning": "1.10 minus 1.", "answer": "10 cents"}),
        json!({"reasoning": "x + (x + 1) = 1.10, so 2x = 0.10.", "answer": "5 cents"}),
        json!({"reasoning": "5 cents and 1.05 € make 1.10 €.", "answer": "5 Cents"}),
    ];
    for sample in &samples {
        println!("sample: {} {}", sample["reasoning"], sample["answer"]);
    }
    let model = ScriptedModel::new(samples.map(|sample| Script::text(&sample.to_string())));
    let agent = GenericAgent::builder(model.clone(), SelfConsistency::new(3)).build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("A bat and a ball cost 1.10 €. The bat costs 1 € more…").await?;

    // The conversation contains the request and the answer, but none of the samples.
    let messages = handle.state().await?.messages;
    for message in messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    assert_eq!((model.requests().len(), messages.len()), (3, 2));
    assert_eq!(outcome.text, "5 cents");
    Ok(())
}
