//! Resuming a session: a second agent continues, from the same SQLite file, where the first ended.
//!
//! `cargo run --example resume`
//!
//! The second agent could be in another process: it needs only the log in the file.

use std::error::Error;

use loopwright::memory::Sqlite;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, SessionStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Sqlite::open(folder.path().join("sessions.db"))?;

    let model = ScriptedModel::new([Script::text("Nice to meet you, Ann.")]);
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let handle = agent.open(&store, "chat").await?;
    println!("{}", handle.prompt("I am Ann.").await?.text);
    handle.close().await;

    for info in store.sessions().await? {
        println!("stored: {:?}, {} entries", info.title, info.entries);
    }
    let model = ScriptedModel::new([Script::text("You are Ann.")]);
    let agent = GenericAgent::builder(model.clone(), PiPattern).build()?;
    let handle = agent.open(&store, "chat").await?;
    println!("{}", handle.prompt("Who am I?").await?.text);
    for message in model.requests()[0].messages.iter() {
        println!("in the request: {:?} {}", message.role(), message.text());
    }
    Ok(())
}
