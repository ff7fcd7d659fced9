//! A pattern of one's own: each document is read in a request of its own, four at once, and the
//! answer comes from the notes. A document that cannot be read is left out.

// [pattern]
use loopwright_core::message::UserMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

struct MapReduce {
    documents: Vec<String>,
}

#[async_trait]
impl BehaviorPattern for MapReduce {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let question = step.user_request().map(|request| request.text()).unwrap_or_default();
            let read = |(n, document): (usize, &String)| {
                let text = UserMessage::from(format!("{question}\n\n{document}"));
                Ask::detached().messages([text.into()]).model("reader").key(format!("read-{n}"))
            };
            let asks = self.documents.iter().enumerate().map(read);
            let room = step.left().keep(1); // for the answer
            let replies = step.with_budget(room).ask_all(asks).at_most(4).as_many_as_fit().await?;
            let mut notes = Vec::new();
            for reply in replies.into_iter().filter(|reply| !reply.should_stop()) {
                notes.push(reply.or_end()?.text());
            }
            let (read, all) = (notes.len(), self.documents.len());
            let text = format!("Notes on {read} of {all} documents:\n{}", notes.join("\n"));
            step.ask_with(Ask::new().also(UserMessage::from(text))).await?.or_end()?;
        }
        Ok(StepEnd::Done)
    }
}
// [/pattern]

use std::time::Duration;

use loopwright_core::GenericAgent;
use loopwright_core::event::RunOutcome;
use loopwright_core::limits::Budget;
use loopwright_core::message::Usage;
use loopwright_core::model::{ChatRequest, ModelErrorKind, ModelInfo, Prices};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_patterns::conformance::{self, Scenario};
use tokio::time::Instant;

fn pattern(documents: usize) -> MapReduce {
    MapReduce { documents: (0..documents).map(|n| format!("Document {n}.")).collect() }
}

/// Returns a note on the document, or an error for the third document; else the answer, with the
/// number of documents.
fn reply(request: &ChatRequest) -> Script {
    let text = request.messages.last().map(|message| message.text()).unwrap_or_default();
    match text.rsplit_once("Document ") {
        Some((_, "2.")) => Script::error(ModelErrorKind::Overloaded, "unreadable"),
        Some((_, number)) => Script::new().wait(Duration::from_secs(10)).say(number),
        None => Script::text(text.lines().next().unwrap_or_default()),
    }
}

/// Asks about 20 documents within a budget. Each request costs 0.006 dollars.
async fn ask(budget: Budget) -> RunOutcome {
    let model = ScriptedModel::new([])
        .info(ModelInfo::new("test/m").with_prices(Prices::new(6.0, 6.0)))
        .reply_with(|request| reply(request).usage(Usage::new(990, 10)));
    let agent = GenericAgent::builder(model.clone(), pattern(20)).model_named("reader", model);
    let agent = agent.limits(budget).build().unwrap();
    agent.prompt("What do they say?").await.unwrap()
}

/// C503: 20 documents are read, four at once; one that fails is left out.
#[tokio::test(start_paused = true)]
async fn documents_are_read_four_at_once() {
    let start = Instant::now();
    let outcome = ask(Budget::default()).await;
    assert_eq!(outcome.text, "Notes on 19 of 20 documents:");
    assert_eq!(start.elapsed(), Duration::from_secs(50));
}

/// C503: at the limit of the cost, the answer comes from the documents that were read.
#[tokio::test(start_paused = true)]
async fn a_limit_of_the_cost_leaves_room_for_the_answer() {
    for (cost, read) in [(0.03, 4), (0.08, 13)] {
        let outcome = ask(Budget::default().cost(cost)).await;
        assert_eq!(outcome.text, format!("Notes on {read} of 20 documents:"));
        // Those in flight may cost more than was estimated.
        assert!(outcome.cost < cost + 4.0 * 0.006, "{}", outcome.cost);
    }
}

/// C503: the pattern keeps the rules of the suite, which knows that it survives errors, also with a
/// document that fails.
#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let scenario = |name| {
        Scenario::new(name, [])
            .reply_with(reply)
            .agent(|agent, model| agent.model_named("reader", model.clone()))
            .tolerates_model_errors()
            .answers_at_limit()
    };
    let scenarios = [
        scenario("two requests").request("What?").request("And then?"),
        scenario("a follow-up").request("What?").follow_up("And then?"),
    ];
    for documents in [2, 4] {
        let report = conformance::check(|| pattern(documents), scenarios.clone()).await.unwrap();
        assert!(report.sessions > 100, "{report:?}");
    }
}
