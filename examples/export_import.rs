//! Sessions as files: exported as JSON Lines and as Markdown, imported into another store.
//!
//! `cargo run --example export_import`

use std::error::Error;

use loopwright::log::InMemoryStore;
use loopwright::memory::{Jsonl, import, to_jsonl, to_markdown};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, SessionStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = InMemoryStore::new();
    let model = ScriptedModel::new([Script::text("Nine.")]);
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let handle = agent.open(&store, "count").await?;
    handle.prompt("How many planets are there?").await?;

    // A session can be read while it is open.
    let entries = store.read("count", 0).await?;
    let file = to_jsonl("count", &entries)?;
    println!("{} lines, the first: {}", file.lines().count(), file.lines().next().unwrap_or(""));
    println!("{}", to_markdown(&store.session("count").await?, &entries));

    let folder = tempfile::tempdir()?;
    let other = Jsonl::open(folder.path())?;
    import(&other, "copy", &file).await?;
    let model = ScriptedModel::new([Script::text("Pluto was the ninth.")]);
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let handle = agent.open(&other, "copy").await?;
    handle.prompt("And Pluto?").await?;
    println!("the copy has {} messages", handle.state().await?.messages.len());
    Ok(())
}
