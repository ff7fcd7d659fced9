//! One question, one answer: the whole program is one line.
//!
//! `cargo run --example ask`
//!
//! `offline` is a rule-based model without a key. `anthropic/claude-sonnet-4-5` reads its key from
//! `ANTHROPIC_API_KEY`. `ollama/llama3.3` needs no key.

#[loopwright::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", loopwright::ask(loopwright::model("offline")?, "What are you?").await?);
    Ok(())
}
