//! The model that replies, out of several, and the consequences.

use loopwright_providers::Fallback;

use crate::kit::*;

/// Returns a model whose million tokens, of any kind, cost `dollars`.
fn priced(id: &str, dollars: f64, replies: impl IntoIterator<Item = Script>) -> ScriptedModel {
    let prices = Prices::new(dollars, dollars).cache(dollars, dollars);
    ScriptedModel::new(replies).info(ModelInfo::new(id).with_prices(prices))
}

fn tokens(script: Script) -> Script {
    script.usage(Usage::new(600_000, 400_000))
}

fn broken() -> Script {
    Script::new().think("hm", Some("of a")).fail(ModelErrorKind::Overloaded, "busy")
}

/// C71: a reply names the model that gave it, which decides where its signatures are used, and has
/// that model's price.
#[tokio::test(start_paused = true)]
async fn a_reply_names_the_model_that_gave_it_and_costs_its_price() {
    let first = priced("a/1", 1.0, [broken(), tokens(Script::text("from a"))]);
    let second =
        priced("b/2", 5.0, [tokens(Script::new().think("well", Some("of b")).say("from b"))]);
    let agent =
        GenericAgent::builder(Fallback::new(first.clone()).or(second), PiPattern).build().unwrap();
    let handle = agent.session().await.unwrap();
    for (text, cost) in [("from b", 5.0), ("from a", 1.0)] {
        let outcome = handle.prompt("go").await.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.cost), (text, cost), "{outcome:?}");
    }
    let messages = handle.state().await.unwrap().messages;
    let replies: Vec<_> = messages.iter().filter_map(|m| m.as_assistant()).collect();
    assert_eq!(replies.iter().map(|m| &*m.model).collect::<Vec<_>>(), ["b/2", "a/1"]);
    let ContentPart::Thinking { signature, .. } = &replies[0].parts[0] else { panic!() };
    assert_eq!((signature.as_deref(), replies[0].parts.len()), (Some("of b"), 2));
    let seen = &first.requests()[1].messages;
    assert_eq!(
        &*seen[1].as_assistant().unwrap().model,
        "b/2",
        "so the first model can recognise the replies of others"
    );
}

/// C71: a reply names its model while it streams, and if it is cut off.
#[tokio::test(start_paused = true)]
async fn a_reply_that_streams_or_is_cut_off_names_its_model() {
    let gate = Gate::new();
    let second = priced("b/2", 5.0, [Script::text("half").gate(&gate)]);
    let agent =
        GenericAgent::builder(Fallback::new(priced("a/1", 1.0, [broken()])).or(second), PiPattern);
    let (handle, mut events) = agent.build().unwrap().run(RunContext::new()).await.unwrap();
    handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
    while !matches!(
        &events.next().await.unwrap().event,
        AgentEvent::MessageUpdate { update: Update::Text { .. }, .. }
    ) {}
    assert_eq!(&*handle.state().await.unwrap().streaming_message.unwrap().model, "b/2");
    handle.abort().await.unwrap();
    handle.wait_for_idle().await;
    let messages = handle.state().await.unwrap().messages;
    let last = messages.last().and_then(|m| m.as_assistant()).unwrap();
    assert_eq!(
        (&*last.model, last.stop, last.text()),
        ("b/2", StopReason::Aborted, "half".to_owned())
    );
}

/// A pattern that sends a detached request and ends.
struct Detached;

#[async_trait::async_trait]
impl BehaviorPattern for Detached {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let reply = step.ask_with(Ask::detached()).await?;
        assert_eq!(&*reply.message().unwrap().as_assistant().unwrap().model, "b/2");
        Ok(StepEnd::Done)
    }
}

/// C67 C71: the same holds for a detached request.
#[tokio::test(start_paused = true)]
async fn a_detached_reply_names_the_model_that_gave_it_and_costs_its_price() {
    let second = priced("b/2", 5.0, [tokens(Script::text("well"))]);
    let agent =
        GenericAgent::builder(Fallback::new(priced("a/1", 1.0, [broken()])).or(second), Detached);
    let handle = agent.build().unwrap().session().await.unwrap();
    let outcome = handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, outcome.cost), (RunStatus::Done, 5.0), "{outcome:?}");
}
