//! Long-term memory: facts that outlive a session.

mod distil;
mod distil_command;
mod facts;
mod files;
mod hook;
mod principals;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loopwright_core::event::Prompt;
use loopwright_core::retrieval::{Embedder, RetrievalError};
use loopwright_core::testing::Script;
use loopwright_core::{Environment, Principal};
use loopwright_memory::long_term::{Fact, LongTerm, Scope};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::directory;

fn temp_file() -> (TempDir, PathBuf) {
    let folder = directory();
    let path = folder.path().join("facts.db");
    (folder, path)
}

fn open() -> (TempDir, LongTerm) {
    let (folder, path) = temp_file();
    (folder, LongTerm::open(path).unwrap())
}

fn ann() -> Scope {
    Scope::user("ann")
}

fn bob() -> Scope {
    Scope::user("bob")
}

fn texts(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(|fact| fact.text.as_str()).collect()
}

/// Returns a request of this user.
fn by(user: &str, text: &str) -> Prompt {
    Prompt::from(text).with(Principal::new(user))
}

/// Returns a reply with one call.
fn call(tool: &str, arguments: Value) -> Script {
    Script::calls([("c", tool, arguments)])
}

fn fact(text: &str) -> Value {
    json!({ "fact": text })
}

/// A clock that a test sets.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Environment for Clock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        0
    }
}

/// An embedder that gives all words of one line the same meaning.
#[derive(Clone)]
struct Meanings {
    id: &'static str,
    is_down: Arc<AtomicBool>,
    texts: Arc<AtomicU64>,
}

const MEANINGS: [&[&str]; 4] = [
    &["cat", "kitten", "feline"],
    &["dog", "puppy", "canine"],
    &["car", "vehicle", "automobile"],
    &["tea", "beverage", "drinks"],
];

impl Meanings {
    fn new() -> Self {
        Meanings { id: "meanings", is_down: Arc::default(), texts: Arc::default() }
    }
}

#[async_trait::async_trait]
impl Embedder for Meanings {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(RetrievalError::Failed("the embedder is down".into()));
        }
        self.texts.fetch_add(texts.len() as u64, Ordering::Relaxed);
        let vector = |text: &String| {
            let count = |words: &&[&str]| words.iter().filter(|word| text.contains(**word)).count();
            MEANINGS.iter().map(|words| count(words) as f32).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }

    fn dimensions(&self) -> usize {
        MEANINGS.len()
    }

    fn id(&self) -> &str {
        self.id
    }
}
