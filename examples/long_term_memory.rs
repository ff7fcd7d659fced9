//! Long-term memory: a fact that one session stores is part of the requests of the next one.
//!
//! `cargo run --example long_term_memory`
//!
//! The host names the owner of the facts with a `Principal`. A model cannot name another user.

use std::error::Error;

use loopwright::memory::long_term::{LongTerm, Scope};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, Principal, RunContext};
use serde_json::json;

/// Runs one session of a user. Returns the last request that the model got.
async fn session(
    memory: &LongTerm,
    user: &str,
    prompt: &str,
    replies: Vec<Script>,
) -> Result<String, Box<dyn Error>> {
    let model = ScriptedModel::new(replies);
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .tools(memory.tools()) // `remember_fact`, `recall_facts`, `forget_fact`
        .hook(memory.hook()) // adds the facts that fit a request
        .build()?;
    let (handle, _events) = agent.run(RunContext::new().with(Principal::new(user))).await?;
    println!("{user}: {prompt}\nagent: {}", handle.prompt(prompt).await?.text);
    let requests = model.requests();
    let messages = requests.last().map(|request| request.messages.clone()).unwrap_or_default();
    Ok(messages.iter().map(|message| message.text() + "\n").collect())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let memory = LongTerm::open(folder.path().join("facts.db"))?;
    let fact = json!({"fact": "Ann's cat is called Minka."});
    let store = vec![Script::calls([("f", "remember_fact", fact)]), Script::text("Noted.")];
    session(&memory, "ann", "My cat is called Minka.", store).await?;

    for user in ["ann", "bob"] {
        let reply = vec![Script::text("Let me think.")];
        let request = session(&memory, user, "What is my cat called?", reply).await?;
        println!("the request of {user} has the fact: {}", request.contains("Minka"));
    }
    for fact in memory.facts(&[Scope::user("ann")], 0, 10).await? {
        println!("fact {}: {}", fact.id, fact.text);
    }
    Ok(())
}
