//! `Rag`: answers from documents, with citations.
//!
//! The retriever finds the paragraphs that share words with the query. A real one would have an
//! index or a vector store. The cited passages follow the answer as a message of the kind
//! `citations`, which is for front ends and not for models.

use std::error::Error;

use loopwright::message::MessageKind;
use loopwright::patterns::{PiPattern, Rag};
use loopwright::retrieval::{Passage, RetrievalError, Retriever};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, async_trait};

const HANDBOOK: [(&str, &str); 3] = [
    ("leave.md", "Everyone has thirty days of holiday in a year."),
    ("leave.md#transfer", "Five days of holiday can be moved to the next year."),
    ("travel.md", "Travel is booked by the office."),
];

struct Handbook;

#[async_trait]
impl Retriever for Handbook {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError> {
        let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3);
        let words: Vec<&str> = words.collect();
        let passage = |(source, text): (&str, &str)| {
            let shared = words.iter().filter(|word| text.contains(**word)).count();
            Passage::new(text).source(source).score(shared as f32)
        };
        let passages = HANDBOOK.into_iter().map(passage);
        let mut found: Vec<Passage> = passages.filter(|passage| passage.score > 0.0).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(limit);
        Ok(found)
    }
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([Script::text("Yes, five of them [leave.md#transfer].")]);
    let agent = GenericAgent::builder(model, Rag::new(Handbook, PiPattern)).build()?;
    let handle = agent.session().await?;
    handle.prompt("Can I take days of holiday into the next year?").await?;

    let mut cited: Vec<Passage> = Vec::new();
    for message in handle.state().await?.messages.iter() {
        match &message.body {
            MessageKind::Custom(custom) if custom.kind == "citations" => {
                cited = serde_json::from_value(custom.data.clone())?;
            }
            _ if message.text().is_empty() => {} // the call of `search`
            _ => println!("{:?}: {}", message.role(), message.text()),
        }
    }
    for passage in &cited {
        println!("{}: {}", passage.source, passage.text);
    }
    assert_eq!(cited.len(), 1);
    assert_eq!(cited[0].text, HANDBOOK[1].1);
    Ok(())
}
