//! `Graph`: nodes, conditional edges, a cycle, a question, a fan-out, and the way back.
//!
//! `agent` is the graph of an agent: a node that asks the model, a node that calls its tools, and a
//! conditional edge between them. `naming` asks two models at once, joins their proposals, and lets
//! the user decide. If the user wants others, it returns to the point before the proposals.

use std::error::Error;

use loopwright::event::{Decision, Provided};
use loopwright::message::UserMessage;
use loopwright::patterns::{Graph, Next, PiPattern};
use loopwright::testing::{Script, ScriptedModel, TestTool};
use loopwright::tool::Question;
use loopwright::{Ask, GenericAgent, StepError};

/// Returns a graph that asks and calls tools in a cycle. The state is `true` if the results ask for
/// the end.
pub(crate) fn agent() -> Graph<bool> {
    Graph::<bool>::new("agent")
        .node("agent", |step, _| {
            Box::pin(async move {
                step.take_messages().await?;
                step.ask().await?.or_end()?;
                Ok(None)
            })
        })
        .edge("agent", |step, _| match step.last_reply() {
            Some(reply) if reply.has_calls() => Next::To("tools"),
            _ => Next::End,
        })
        .node("tools", |step, ends| {
            Box::pin(async move {
                if let Some(reply) = step.last_reply() {
                    *ends = !step.call_tools(&reply).await?.or_end()?.wants_reply();
                }
                Ok(None)
            })
        })
        .edge("tools", |_, ends| if std::mem::take(ends) { Next::End } else { Next::To("agent") })
}

/// The state with which `naming` continues after a crash or a decision.
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Naming {
    round: u32,
    names: String,
    wants_others: bool,
}

/// Returns a graph that proposes names until the user chooses one, then lets `PiPattern` answer.
pub(crate) fn naming() -> Graph<Naming> {
    Graph::<Naming>::new("propose")
        .checkpoint("propose")
        .node("propose", |step, naming| {
            Box::pin(async move {
                // The fan-out. The keys differ per visit, so a crash pays for no request twice.
                let ask =
                    |model| Ask::detached().model(model).key(format!("{model}-{}", naming.round));
                let replies = step.ask_all(["bold", "calm"].map(ask)).await?;
                let names = replies.into_iter().map(|reply| Ok(reply.or_end()?.text()));
                let names = names.collect::<Result<Vec<_>, StepError>>()?; // the join
                naming.names = names.join(" or ");
                Ok(Some(UserMessage::from(format!("Proposals: {}", naming.names)).into()))
            })
        })
        .edge("propose", |_, _| Next::To("decide"))
        .node("decide", |step, naming| {
            Box::pin(async move {
                let question = Question::choice(&naming.names, ["these", "others"]);
                let key = format!("decide-{}", naming.round);
                // The interrupt: the run ends here, and continues here once there is an answer.
                let answer = step.question(&key, question).await?.answer()?;
                naming.wants_others = answer.is_some_and(|answer| answer == "others");
                Ok(None)
            })
        })
        .edge("decide", |_, naming| {
            naming.round += 1;
            if naming.wants_others { Next::Back("propose") } else { Next::To("answer") }
        })
        .pattern("answer", PiPattern)
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let replies = [Script::new().call("a", "clock", "{}"), Script::text("It is noon.")];
    let clock = TestTool::new("clock").answers("12:00");
    let model = ScriptedModel::new(replies);
    let clerk = GenericAgent::builder(model, agent()).tool(clock.clone()).build()?;
    let handle = clerk.session().await?;
    let outcome = handle.prompt("What time is it?").await?;
    println!("{}", outcome.text);
    assert_eq!((clock.ran(), &*outcome.text), (1, "It is noon."));

    let model = ScriptedModel::new([Script::text("Harbour, because it is short.")]);
    let bold = ScriptedModel::new(["Thunder", "Anchor"].map(Script::text));
    let calm = ScriptedModel::new(["Pebble", "Harbour"].map(Script::text));
    let builder = GenericAgent::builder(model.clone(), naming());
    let namer = builder.model_named("bold", bold).model_named("calm", calm).build()?;
    let handle = namer.session().await?;
    handle.prompt("A name for our boat?").await?;
    for answer in ["others", "these"] {
        let action = handle.pending().await?.remove(0);
        let question = action.question().ok_or("the action is not a question")?;
        println!("{}? {answer}", question.question);
        let answer = Decision::Provide(Provided::Input(answer.into()));
        handle.resolve(&action, answer).await?;
        handle.wait_for_idle().await;
    }

    let request = model.requests().remove(0);
    let texts: Vec<String> = request.messages.iter().map(|message| message.text()).collect();
    println!("{}", texts.join("\n"));
    // The first proposals are no longer part of the conversation.
    assert_eq!(texts, ["A name for our boat?", "Proposals: Anchor or Harbour"]);
    Ok(())
}
