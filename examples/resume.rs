//! Resuming a session: a second agent continues, from the same SQLite file, where the first ended.
//!
//! `cargo run --example resume`
//!
//! The second agent could be in another process: it needs only the log in the file.

use std::error::Error;

use loopwright::memory::Sqlite;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, RunContext, SessionStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Sqlite::open(folder.path().join("sessions.db"))?;

    let model = ScriptedModel::new([Script::text("Nice to meet you, Ann.")]);
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let (handle, mut events) = agent.run(RunContext::new().stored(&store, "chat").await?).await?;
    println!("{}", handle.prompt("I am Ann.").await?.text);
    drop((handle, agent));
    while events.next().await.is_some() {} // until the session is closed

    for info in store.sessions().await? {
        println!("stored: {:?}, {} entries", info.title, info.entries);
    }
    let model = ScriptedModel::new([Script::text("You are Ann.")]);
    let agent = GenericAgent::builder(model.clone(), PiPattern).build()?;
    let (handle, _events) = agent.run(RunContext::new().stored(&store, "chat").await?).await?;
    println!("{}", handle.prompt("Who am I?").await?.text);
    for message in model.requests()[0].messages.iter() {
        println!("in the request: {:?} {}", message.role(), message.text());
    }
    Ok(())
}
