//! `Route`: each request goes to the role that fits it.
//!
//! A small model classifies the requests of customers and answers greetings. A larger model with
//! its own prompt answers questions about invoices.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::patterns::{PiPattern, Route};
use loopwright::session::Profile;
use loopwright::testing::{Script, ScriptedModel};

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let small = ScriptedModel::new([
        Script::text(r#"{"route": "chat"}"#),
        Script::text("Good morning! How can I help?"),
        Script::text(r#"{"route": "billing"}"#),
    ]);
    let large = ScriptedModel::new([Script::text("You were charged twice; I refund 12 €.")]);

    let chat = Profile::new().system("You are friendly and brief.");
    let billing = Profile::new().model("large").system("You know the invoices.");
    let pattern = Route::new(PiPattern).to("chat", "Greetings and thanks.", chat).to(
        "billing",
        "Invoices and refunds.",
        billing,
    );
    let agent = GenericAgent::builder(small.clone(), pattern)
        .system("You classify requests.")
        .model_named("large", large.clone())
        .build()?;
    let handle = agent.session().await?;
    handle.prompt("Good morning!").await?;
    let outcome = handle.prompt("Why is my invoice so high?").await?;

    for (name, model) in [("small", &small), ("large", &large)] {
        for request in model.requests() {
            println!("{name}: {}", request.system);
        }
    }
    println!("{}", outcome.text);
    let systems = |model: &ScriptedModel| -> Vec<String> {
        model.requests().iter().map(|request| request.system.to_string()).collect()
    };
    let router = "You classify requests.";
    assert_eq!(systems(&small), [router, "You are friendly and brief.", router]);
    assert_eq!(systems(&large), ["You know the invoices."]);
    assert_eq!(outcome.text, "You were charged twice; I refund 12 €.");
    Ok(())
}
