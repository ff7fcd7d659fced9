//! Hooks: change the text of replies while it streams, and decide whether a run may end.
//!
//! `cargo run --example hooks`

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::event::Role;
use loopwright::hooks::{BeforeEnd, FnHandleBeforeEnd, FnHandleStepTextPart, TextAction};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Holds text back until a word is complete, since a model may stream the number in two parts.
    let redact = FnHandleStepTextPart::new(|_, part| {
        if !part.last && !part.text.ends_with(char::is_whitespace) {
            return TextAction::Hold;
        }
        TextAction::Replace(part.text.replace("4711", "****"))
    });
    let cite = FnHandleBeforeEnd::new(async |_, reply| match reply.text().contains("Source:") {
        true => BeforeEnd::Default,
        false => BeforeEnd::Continue("Name your source.".into()),
    });

    let pause = std::time::Duration::ZERO;
    let model = ScriptedModel::new([
        Script::new().stream(["Your PIN ", "is 47", "11."], pause),
        Script::text("It is 4711. Source: your bank."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).hook(redact).hook(cite).build()?;
    let handle = agent.session().await?;
    handle.prompt("What is my PIN?").await?;
    for message in handle.state().await?.messages.iter() {
        let who = if message.role() == Role::User { "user" } else { "agent" };
        println!("{who}: {}", message.text());
    }
    Ok(())
}
