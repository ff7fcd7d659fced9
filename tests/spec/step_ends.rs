//! Steps that end by `?`, and values that models answer with.

use loopwright_patterns::{FirstCall, GenericPattern};

use crate::kit::*;

/// Returns a pattern that answers and runs the tools that it needs. Each line may end the step.
fn answering() -> impl BehaviorPattern + 'static {
    does(|step| {
        Box::pin(async {
            step.take_input().await?;
            loop {
                let reply = step.ask().await?.or_end()?;
                let batch = step.call_tools(&reply).await?.or_end()?;
                if !batch.wants_reply() {
                    step.emit("end", true).await?;
                    return Ok(StepEnd::Done);
                }
            }
        })
    })
}

/// A pattern that wraps another one, and notes its end.
struct Noted<P>(P);

#[async_trait::async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Noted<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = self.0.next_step(step).await?;
        step.emit("noted", true).await?;
        Ok(end)
    }
}

fn emitted(harness: &Harness) -> Vec<String> {
    let entries = harness.memory.entries();
    let emitted = entries.iter().filter_map(|entry| match entry {
        LogEntry::Emitted { kind, .. } => Some(kind.to_string()),
        _ => None,
    });
    emitted.collect()
}

/// C148: A step ends with `?` while calls wait, also through a wrapping pattern. The pattern is
/// entered again after the decision.
#[tokio::test(start_paused = true)]
async fn a_step_ends_while_calls_wait() {
    let tool = TestTool::new("pay").effect(Effect::Idempotent);
    let replies = [calls(&["pay"]), Script::text("Paid.")];
    let harness = Harness::new(Noted(answering()), replies, |a| a.tool(tool)).await;
    assert_eq!(harness.handle.prompt("Pay.").await.unwrap().end, RunStatus::AwaitingAction);
    assert_eq!(emitted(&harness), Vec::<String>::new());
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(emitted(&harness), ["end", "noted"]);
    harness.check().await;
}

/// C148: An error of the model and a hook that ends the run end the step with `?`.
#[tokio::test(start_paused = true)]
async fn a_step_ends_with_an_error_of_the_model_or_a_hook() {
    let failing = Script::error(ModelErrorKind::Overloaded, "overloaded");
    let harness = Harness::new(Noted(answering()), [failing], |a| a).await;
    let outcome = harness.handle.prompt("?").await.unwrap();
    assert_eq!(
        (outcome.end, outcome.model_error),
        (RunStatus::Error, Some(ModelErrorKind::Overloaded))
    );
    let end = FnHandleBeforeEnd::new(|_, _| async { BeforeEnd::End });
    let harness = Harness::new(Noted(answering()), [Script::text("A.")], |a| a.hook(end)).await;
    assert_eq!(harness.handle.prompt("?").await.unwrap().end, RunStatus::Done);
    assert_eq!(emitted(&harness), Vec::<String>::new());
    harness.check().await;
}

/// C148: A pattern that wraps a built-in one does not continue after a hook has ended the run.
#[tokio::test(start_paused = true)]
async fn a_wrapper_does_not_continue_after_a_hook_has_ended_the_run() {
    for (ends, expected) in [(true, vec![]), (false, vec!["noted"])] {
        let patterns: [Arc<dyn BehaviorPattern>; 3] = [
            Arc::new(PiPattern),
            Arc::new(GenericPattern),
            Arc::new(FirstCall::new(ToolChoice::Auto, PiPattern)),
        ];
        for pattern in patterns {
            let verdict =
                move |_, _| async move { if ends { BeforeEnd::End } else { BeforeEnd::Default } };
            let hook = FnHandleBeforeEnd::new(verdict);
            let harness =
                Harness::new(Noted(pattern), [Script::text("A.")], |a| a.hook(hook)).await;
            assert_eq!(harness.handle.prompt("?").await.unwrap().end, RunStatus::Done);
            assert_eq!(emitted(&harness), expected);
            harness.check().await;
        }
    }
}

/// C148: A waiting question ends the step with `?`. Its answer, or the absence of one, is a value.
#[tokio::test(start_paused = true)]
async fn a_step_ends_while_a_question_waits() {
    let asking = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                let question = Question::choice("Which?", ["red", "blue"]);
                let answer = step.question("colour", question).await?.answer()?;
                step.remember(AssistantMessage::from(format!("{answer:?}"))).await?;
                Ok(StepEnd::Done)
            })
        })
    };
    let blue = Decision::Provide(Provided::Input(json!("blue")));
    let deny = Decision::Deny("no".into());
    for (decision, expected) in [(blue, "Some(String(\"blue\"))"), (deny, "None")] {
        let harness = Harness::new(asking(), [], |a| a).await;
        assert_eq!(harness.handle.prompt("?").await.unwrap().end, RunStatus::AwaitingAction);
        harness.resolve(0, decision).await.unwrap();
        harness.handle.wait_for_idle().await;
        let state = harness.handle.state().await.unwrap();
        assert_eq!(state.messages.last().unwrap().text(), expected);
        harness.check().await;
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    number: u32,
}

/// Returns a pattern that asks for two numbers at the same time and answers with their sum.
fn adding() -> impl BehaviorPattern + 'static {
    does(|step| {
        Box::pin(async {
            step.take_input().await?;
            if step.is_answered() {
                return Ok(StepEnd::Done);
            }
            let ask = |name: &str| Ask::detached().key(name).also(UserMessage::from(name));
            let numbers: Vec<Number> = step.ask_for_all([ask("a"), ask("b")]).await?;
            let sum: u32 = numbers.iter().map(|number| number.number).sum();
            step.remember(AssistantMessage::from(sum.to_string())).await?;
            Ok(StepEnd::Done)
        })
    })
}

fn number(number: u32) -> Script {
    Script::text(&json!({ "number": number }).to_string())
}

/// C148: A reply without a valid value is sent back with the reason, as often as the limits allow.
/// The other requests are not repeated. After a crash no reply is paid for twice.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_no_value_is_sent_back() {
    let replies = [Script::text("one"), number(2), Script::text("{}"), number(1)];
    let harness = Harness::new(adding(), replies.clone(), |a| a).await;
    assert_eq!(harness.handle.prompt("Add.").await.unwrap().text, "3");
    let requests = harness.model.requests();
    let texts: Vec<String> = requests[3].messages.iter().map(|message| message.text()).collect();
    assert_eq!((requests.len(), texts.len(), &*texts[2]), (4, 6, "one"));
    assert!(texts[5].contains("/number: is required, but missing"), "{}", texts[5]);
    let scenario = loopwright_core::testing::ScriptedSession::new(replies).request("Add.");
    let agent = |model| GenericAgent::builder(model, adding());
    let report = loopwright_core::testing::crash_at_every_append(agent, scenario).await.unwrap();
    assert_eq!((report.requests, report.compared), (4, report.appends), "{report}");
    let wrong = ["1", "2"].map(Script::text);
    let limits = Limits::default().output_retries(0);
    let harness = Harness::new(adding(), wrong, |a| a.limits(limits)).await;
    assert_eq!(harness.handle.prompt("Add.").await.unwrap().end, RunStatus::Error);
    assert_eq!(harness.model.requests().len(), 2);
}

/// C148: After a steer that interrupts a request, the engine delivers the steer and enters the
/// pattern again, also after a crash.
#[tokio::test(start_paused = true)]
async fn a_steer_that_interrupts_a_request_is_delivered_first() {
    let steer = InputEvent::Steer(Prompt::from("Faster.").urgency(Urgency::Interrupt));
    let hanging = [Script::new().hang(), Script::new().hang()];
    let replies = hanging.into_iter().chain([number(1), number(2)]);
    let harness = Harness::new(adding(), replies, |a| a).await;
    send(&harness, "Add.").await;
    sleep(ms(10)).await;
    harness.handle.send(steer).await.unwrap();
    harness.handle.wait_for_idle().await;
    let expected = ["U:Add.", "U:Faster.", "A:3/Stop"];
    assert_eq!(harness.transcript().await, expected);
    harness.check().await;
    let mut log = harness.memory.entries();
    let delivered = log.iter().rposition(|entry| matches!(entry, LogEntry::Delivered { .. }));
    log.truncate(delivered.unwrap());
    let fresh = Harness::new(adding(), [number(1), number(2)], |a| a).await;
    let harness = fresh.restart_from(log).await;
    harness.handle.continue_run().await.unwrap();
    assert_eq!(harness.transcript().await, expected);
    harness.check().await;
}
