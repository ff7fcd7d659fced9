//! Your own model: `impl ChatModel` in 25 lines. This one repeats the request in capitals.
//!
//! `cargo run --example own_model`
//!
//! A client of a real service does the same with the chunks of its response: one delta for each
//! chunk of text, then `Done` with the used tokens, or `Error`.

use futures::stream::{StreamExt, iter};
use loopwright::message::{StopReason, Usage};
use loopwright::model::{BlockKind, BoxStream, ChatRequest, ModelEvent, ModelInfo};
use loopwright::patterns::PiPattern;
use loopwright::{ChatModel, GenericAgent};

struct Capitals(ModelInfo);

impl ChatModel for Capitals {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let text = request.messages.last().map(|message| message.text()).unwrap_or_default();
        let deltas = text
            .split_inclusive(' ')
            .map(|word| ModelEvent::Delta { block: 0, delta: word.to_uppercase() });
        let mut events = vec![ModelEvent::BlockStart { block: 0, kind: BlockKind::Text }];
        events.extend(deltas);
        events.push(ModelEvent::BlockEnd { block: 0, signature: None });
        let words = text.split_whitespace().count() as u64;
        events.push(ModelEvent::Done { stop: StopReason::Stop, usage: Usage::new(words, words) });
        iter(events).boxed()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Capitals(ModelInfo::new("own/capitals"));
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Is anybody there?").await?;
    println!("{} ({} tokens)", outcome.text, outcome.usage.total());
    Ok(())
}
