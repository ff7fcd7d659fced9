//! Recall by vectors: a retriever that ranks documents by the cosine of the angle to the query.
//!
//! `cargo run --example vector_recall`
//!
//! The embedder hashes groups of three letters. It needs no model, and knows the spelling of texts,
//! not their meaning. For meaning, use a provider's embedder:
//! `OpenAiChat::builder("…").build_embedder(dimensions)`.

use loopwright::patterns::{PiPattern, Rag};
use loopwright::retrieval::{Embedder, Passage, RetrievalError, Retriever};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, async_trait};

const DOCUMENTS: [(&str, &str); 3] = [
    ("leave.md", "Five days of holiday can be moved to the next year."),
    ("travel.md", "Travels are booked by the office, two weeks in advance."),
    ("pay.md", "Salaries are paid on the last day of the month."),
];

struct Trigrams;

#[async_trait]
impl Embedder for Trigrams {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        let embed = |text: &String| {
            let letters: Vec<char> = text.to_lowercase().chars().collect();
            let mut vector = vec![0.0; self.dimensions()];
            for trigram in letters.windows(3).filter(|t| t.iter().all(|c| c.is_alphanumeric())) {
                let hash =
                    trigram.iter().fold(0_u32, |h, c| (h ^ *c as u32).wrapping_mul(16777619));
                vector[hash as usize % self.dimensions()] += 1.0;
            }
            vector
        };
        Ok(texts.iter().map(embed).collect())
    }

    fn dimensions(&self) -> usize {
        1024
    }

    fn id(&self) -> &str {
        "hashed-trigrams-1024"
    }
}

struct Index<E> {
    embedder: E,
    rows: Vec<(Passage, Vec<f32>)>,
}

impl<E: Embedder> Index<E> {
    async fn of(embedder: E, documents: &[(&str, &str)]) -> Result<Self, RetrievalError> {
        let texts: Vec<String> = documents.iter().map(|(_, text)| (*text).into()).collect();
        let vectors = embedder.embed(&texts).await?;
        let passages = documents.iter().map(|(source, text)| Passage::new(*text).source(*source));
        Ok(Index { embedder, rows: passages.zip(vectors).collect() })
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let length = (dot(a, a) * dot(b, b)).sqrt();
    if length == 0.0 { 0.0 } else { dot(a, b) / length }
}

#[async_trait]
impl<E: Embedder> Retriever for Index<E> {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError> {
        let query = self.embedder.embed(&[query.into()]).await?.remove(0);
        let scored = self.rows.iter().map(|(p, vector)| p.clone().score(cosine(vector, &query)));
        let mut passages: Vec<Passage> = scored.filter(|passage| passage.score > 0.1).collect();
        passages.sort_by(|a, b| b.score.total_cmp(&a.score));
        passages.truncate(limit);
        passages.iter().for_each(|p| println!("{:.2} {}", p.score, p.source));
        Ok(passages)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let index = Index::of(Trigrams, &DOCUMENTS).await?;
    let model = ScriptedModel::new([Script::text("The office books it [travel.md].")]);
    let agent = GenericAgent::builder(model, Rag::new(index, PiPattern)).build()?;
    let handle = agent.session().await?;
    println!("{}", handle.prompt("Who is booking my travel?").await?.text);
    Ok(())
}
