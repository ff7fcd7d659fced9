//! `Branches` of a `Graph`: 20 documents, 4 at once, with a cost limit.
//!
//! Each document is a branch: a request of its own, outside the conversation. When the limit is
//! used up, the notes that are there are kept, and the answer says how many documents it is based
//! on. The drawing of the graph is for a README.

use std::error::Error;
use std::time::Duration;

use loopwright::limits::Budget;
use loopwright::message::{Usage, UserMessage};
use loopwright::model::{ModelInfo, Prices};
use loopwright::patterns::{Branches, Graph, Next, PiPattern};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{Ask, GenericAgent};

/// The state of the graph, which survives a crash.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Review {
    notes: Vec<String>,
}

fn contracts() -> impl Iterator<Item = String> {
    (1..=20).map(|n| format!("Contract {n}: the notice period is {n} months."))
}

fn review() -> Graph<Review> {
    let read = Branches::new(|_step, _: &Review| {
        let ask = |contract| {
            let question = UserMessage::from(format!("What is the notice period?\n\n{contract}"));
            Ask::detached().messages([question.into()]).max_tokens(200)
        };
        contracts().map(ask).collect()
    });
    let read = read.at_most(4).budget(Budget::default().cost(0.10));
    Graph::<Review>::new("read")
        .branches("read", read, |review, notes| {
            let all = notes.len();
            review.notes = notes.into_iter().flatten().map(|note| note.text()).collect();
            let read = review.notes.len();
            let text = format!("Notes on {read} of {all}:\n{}", review.notes.join("\n"));
            Ok(Some(UserMessage::from(text).into()))
        })
        .leads_to("read", [Next::To("answer")])
        .pattern("answer", PiPattern)
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    // Each reply takes 50 ms and costs $0.006.
    let model = ScriptedModel::new([]).reply_with(|request| {
        let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
        let answer = match last.split_once('\n') {
            Some((notes, _)) if notes.starts_with("Notes") => {
                format!("1 to 16 months. {}", notes.trim_end_matches(':'))
            }
            _ => last.rsplit(' ').nth(1).map(|n| format!("{n} months")).unwrap_or_default(),
        };
        Script::text(&answer).wait(Duration::from_millis(50)).usage(Usage::new(100, 100))
    });
    let model = model.info(ModelInfo::new("test/reader").with_prices(Prices::new(30.0, 30.0)));
    let graph = review();
    println!("{}", graph.to_mermaid());

    let agent = GenericAgent::builder(model, graph).build()?;
    let outcome = agent.session().await?.prompt("How long are the notice periods?").await?;
    println!("{} {} requests, ${:.3}", outcome.text, outcome.requests, outcome.cost);
    assert_eq!((outcome.requests, &*outcome.text), (17, "1 to 16 months. Notes on 16 of 20"));
    Ok(())
}
