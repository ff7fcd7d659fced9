//! A question to the user, with choices: the model calls `ask_user`, and the answer is its result.
//!
//! `cargo run --example ask_user`
//!
//! The question is a pending action like an approval, so another process can answer it days later.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::event::{Decision, Provided};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::AskUser;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let question = json!({"question": "Where do you want to sit?",
        "options": ["inside", "on the terrace"]});
    let model = ScriptedModel::new([
        Script::calls([("q", "ask_user", question)]),
        Script::text("A table on the terrace is booked."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(AskUser::new()).build()?;
    let handle = agent.session().await?;
    println!("{:?}", handle.prompt("Book a table.").await?.end);

    for action in handle.pending().await? {
        let question = action.question().ok_or("the action is not a question")?;
        println!("{} {:?}", question.question, question.form);
        for typed in ["in the kitchen", "2"] {
            match question.read(typed) {
                Ok(answer) => {
                    println!("> {typed}: the answer is {answer}");
                    let decision = Decision::Provide(Provided::Input(answer));
                    handle.resolve(&action, decision).await?;
                }
                Err(why) => println!("> {typed}: {why}"),
            }
        }
    }
    handle.wait_for_idle().await;
    let messages = handle.state().await?.messages;
    println!("{}", messages.last().map(|message| message.text()).unwrap_or_default());
    Ok(())
}
