//! A memory of one's own: a file with one JSON item a line. The session is dropped, opened again, and goes on.
//!
//! An `append` is one write of whole lines that ends in a blank one. What a crash leaves without its blank line never
//! happened: it is cut off at the next opening. Writing at any place but the end is a conflict.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, Item, Memory, MemoryError, RunContext};
use loopwright_patterns::GenericPattern;

struct JsonLines(Mutex<Open>);

struct Open {
    file: File,
    items: Vec<Item>,
    /// Where the last whole append ends.
    end: u64,
}

fn failed(why: impl std::fmt::Display) -> MemoryError {
    MemoryError::Failed(why.to_string())
}

impl JsonLines {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind("\n\n").map_or(0, |at| at + 2);
        let lines = text[..whole].lines().filter(|line| !line.is_empty());
        let items = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        file.set_len(whole as u64)?;
        Ok(JsonLines(Mutex::new(Open { file, items, end: whole as u64 })))
    }
}

impl Open {
    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.file.set_len(self.end)?; // what an append that failed has left
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.end += text.len() as u64;
        Ok(())
    }
}

#[async_trait]
impl Memory for JsonLines {
    async fn append(&self, at: u64, items: Arc<[Item]>) -> Result<(), MemoryError> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = log.items.len() as u64;
        if end != at {
            return Err(MemoryError::Conflict { at, end });
        }
        let mut text = String::new();
        for item in items.iter() {
            text += &serde_json::to_string(item).map_err(failed)?;
            text.push('\n');
        }
        log.write(&(text + "\n")).map_err(failed)?; // a real one would not block a thread of the runtime here
        log.items.extend(items.iter().cloned());
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<Item>, MemoryError> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(log.items.iter().skip(from as usize).cloned().collect())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("loopwright-{}.jsonl", std::process::id()));
    let model = ScriptedModel::new(["Hello, Ann.", "You are Ann."].map(Script::text));
    let agent = GenericAgent::builder(model, GenericPattern).build()?;

    for prompt in ["I am Ann.", "Who am I?"] {
        let memory = JsonLines::open(&path)?;
        let (handle, _events) = agent.run(RunContext::new().session("notes").memory(memory)).await?;
        let known = handle.state().await?.messages.len();
        let outcome = handle.prompt(prompt).await?;
        println!("({known} messages known) {prompt} → {}", outcome.text);
    } // here the session ends; only the file stays

    let stale = JsonLines::open(&path)?.append(0, Arc::new([])).await;
    println!("{}", stale.err().map(|e| e.to_string()).unwrap_or_default());
    std::fs::remove_file(&path)?;
    Ok(())
}
