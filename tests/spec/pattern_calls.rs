//! Calls that a pattern makes itself, and its questions to the user.

use crate::kit::*;

fn input(answer: impl Into<serde_json::Value>) -> Decision {
    Decision::Provide(Provided::Input(answer.into()))
}

/// Searches, then asks the model. Emits the status and the text of the result.
async fn search_first(step: &mut StepContext<'_>, call: Call) -> Result<StepEnd, StepError> {
    step.take_input().await?;
    let Some(result) = step.call(call).await? else {
        return Ok(StepEnd::AwaitingAction);
    };
    step.emit("found", format!("{:?} {}", result.status, result.text())).await?;
    step.take_messages().await?;
    step.ask().await?.finish()
}

fn searching(call: fn() -> Call) -> impl BehaviorPattern + 'static {
    does(move |step| Box::pin(search_first(step, call())))
}

fn search() -> Call {
    Call::new("search", json!({})).key("search")
}

fn found(harness: &mut Harness) -> Vec<String> {
    let events = harness.drain_events();
    let found = events.iter().filter_map(|e| match &e.event {
        AgentEvent::Custom { data, .. } => data.as_str().map(str::to_owned),
        _ => None,
    });
    found.collect()
}

/// C140: A pattern's call is in the conversation with its result, in the turn of the next request.
/// It has the same events as any call.
#[tokio::test(start_paused = true)]
async fn a_call_of_the_pattern_is_a_call_like_any_other() {
    let tool = TestTool::new("search").answers("3 hits");
    let mut harness =
        Harness::new(searching(search), [Script::text("Three.")], |a| a.tool(tool.clone())).await;
    let outcome = harness.handle.prompt("How many?").await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str()), (RunStatus::Done, "Three."));
    let transcript = ["U:How many?", "A:[search]/ToolCalls", "R:search/Ok", "A:Three./Stop"];
    assert_eq!(harness.transcript().await, transcript);
    assert_eq!(sent(&harness, 0), ["How many?", "", "3 hits"]);
    let events = harness.drain_events();
    check_events(&events).unwrap();
    let turns = kinds(&events).iter().filter(|kind| *kind == "turn_start").count();
    assert_eq!((turns, tool.ran()), (1, 1));
    harness.check().await;
}

/// C140: A hidden call is in the history and in no request, whatever hooks there are.
#[tokio::test(start_paused = true)]
async fn a_hidden_call_is_in_no_request() {
    for has_hook in [false, true] {
        let tool = TestTool::new("search").answers("3 hits");
        let options = |agent: loopwright_core::AgentBuilder| match has_hook {
            true => agent.tool(tool).transform_context(async |_, messages| messages),
            false => agent.tool(tool),
        };
        let pattern = searching(|| search().hidden());
        let harness = Harness::new(pattern, [Script::text("?")], options).await;
        harness.handle.prompt("How many?").await.unwrap();
        assert_eq!(sent(&harness, 0), ["How many?"]);
        assert_eq!(harness.transcript().await.len(), 4);
        harness.check().await;
    }
}

/// C475: What a pattern calls after the answer does not hide it.
#[tokio::test(start_paused = true)]
async fn the_text_of_a_run_is_its_answer_whatever_was_called_after_it() {
    for is_hidden in [false, true] {
        let pattern = does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                step.ask().await?.or_end()?;
                step.call(if is_hidden { search().hidden() } else { search() }).await?;
                Ok(StepEnd::Done)
            })
        });
        let tool = TestTool::new("search").answers("3 hits");
        let harness = Harness::new(pattern, [Script::text("42.")], |agent| agent.tool(tool)).await;
        let outcome = harness.handle.prompt("How many?").await.unwrap();
        assert_eq!((outcome.end, outcome.text.as_str()), (RunStatus::Done, "42."));
        assert_eq!(outcome.requests, 1);
        harness.check().await;
    }
}

/// C475: A run without a reply has no text, whatever an earlier run has answered.
#[tokio::test(start_paused = true)]
async fn the_text_of_a_run_is_not_the_answer_to_an_earlier_request() {
    let pattern = does(move |step| {
        Box::pin(async move {
            step.take_input().await?;
            match step.user_request().is_some_and(|request| request.text() == "Search.") {
                true => drop(step.call(search()).await?),
                false => drop(step.ask().await?.or_end()?),
            }
            Ok(StepEnd::Done)
        })
    });
    let tool = TestTool::new("search").answers("3 hits");
    let harness = Harness::new(pattern, [Script::text("42.")], |agent| agent.tool(tool)).await;
    assert_eq!(harness.handle.prompt("How many?").await.unwrap().text, "42.");
    let outcome = harness.handle.prompt("Search.").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text, outcome.requests), (RunStatus::Done, "", 0));
}

/// C140: Wherever a crash cuts the log, a call with a key has one result, and the tool runs once.
#[tokio::test(start_paused = true)]
async fn a_call_with_a_key_is_made_once_whatever_crashes() {
    let tool = || TestTool::new("search").answers("3 hits").effect(Effect::ReadOnly);
    let replies = || [Script::text("Three."), Script::text("Three.")];
    let harness = Harness::new(searching(search), replies(), |a| a.tool(tool())).await;
    harness.handle.prompt("How many?").await.unwrap();
    let (expected, log) = (harness.transcript().await, harness.memory.entries());
    let first = log.iter().position(|e| matches!(e, LogEntry::RunStarted { .. })).unwrap();
    for cut in first + 1..log.len() {
        let tool = tool();
        let fresh = Harness::new(searching(search), replies(), |a| a.tool(tool.clone())).await;
        let harness = fresh.restart_from(log[..cut].to_vec()).await;
        harness.handle.continue_run().await.unwrap();
        assert_eq!(harness.transcript().await, expected, "after entry {cut}");
        let finished = |e: &LogEntry| matches!(e, LogEntry::CallFinished { .. });
        assert_eq!(tool.ran(), usize::from(!log[..cut].iter().any(finished)), "after {cut}");
        harness.check().await;
    }
}

/// C140: A key names a call within the user's request, so the next request makes it again. Two
/// calls of a request cannot share a key.
#[tokio::test(start_paused = true)]
async fn keys_are_those_of_the_request() {
    let tool = TestTool::new("search").answers("3 hits");
    let replies = [Script::text("a"), Script::text("b")];
    let harness = Harness::new(searching(search), replies, |a| a.tool(tool.clone())).await;
    harness.handle.prompt("one").await.unwrap();
    harness.handle.prompt("two").await.unwrap();
    assert_eq!(tool.ran(), 2);
    harness.check().await;

    let sharing = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let both = step.call_all([search(), Call::new("other", json!({})).key("search")]).await;
            assert!(matches!(both, Err(StepError::KeyTaken { .. })), "{both:?}");
            step.call(search()).await?;
            let other = step.call(Call::new("other", json!({})).key("search")).await;
            let why = other.unwrap_err().to_string();
            assert!(why.contains("`search` is taken by a call of `search`"), "{why}");
            let question = step.question("search", Question::text("?")).await;
            assert!(matches!(question, Err(StepError::KeyTaken { .. })), "{question:?}");
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(sharing, [], |a| a.tool(tool)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
}

/// C140: Calls are made at the same time. Their results are in the order of the calls.
#[tokio::test(start_paused = true)]
async fn several_calls_are_one_batch() {
    let slow = |name: &str, time| TestTool::new(name).takes(ms(time));
    let calling = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let calls = ["a", "b", "c"].map(|name| Call::new(name, json!({})).key(name));
            let Some(results) = step.call_all(calls).await? else {
                return Ok(StepEnd::AwaitingAction);
            };
            let texts: Vec<String> = results.iter().map(|result| result.text()).collect();
            step.emit("found", texts.join(" ")).await?;
            Ok(StepEnd::Done)
        })
    });
    let tools = [slow("a", 30), slow("b", 10), slow("c", 20)];
    let mut harness =
        Harness::new(calling, [], |a| tools.into_iter().fold(a, AgentBuilder::tool)).await;
    let start = Instant::now();
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        (found(&mut harness), start.elapsed()),
        (vec!["a done b done c done".into()], ms(30))
    );
    harness.check().await;
}

/// C141: A pattern's call waits for its approval, in another process if necessary. Its result is
/// then returned.
#[tokio::test(start_paused = true)]
async fn a_call_of_the_pattern_can_wait_for_approval() {
    for (decision, expected) in [
        (Decision::Approve, "Ok paid"),
        (Decision::Deny("too much".into()), "Denied Denied by the user: too much"),
    ] {
        let pay = TestTool::new("search").answers("paid").effect(Effect::AtMostOnce);
        let mut harness =
            Harness::new(searching(search), [Script::text("ok")], |a| a.tool(pay)).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.end, RunStatus::AwaitingAction);
        assert_eq!(found(&mut harness), [""; 0]);
        let mut harness = harness.restart().await;
        harness.resolve(0, decision).await.unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!(found(&mut harness), [expected]);
        harness.check().await;
    }
}

/// C141: The status reports a steer instead of a decision. A steer that was queued before the call
/// does not skip it.
#[tokio::test(start_paused = true)]
async fn a_steer_replaces_the_decision_on_a_pattern_s_call() {
    let pay = TestTool::new("search").answers("paid").effect(Effect::AtMostOnce);
    let mut harness = Harness::new(searching(search), [Script::text("ok")], |a| a.tool(pay)).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.send(InputEvent::Steer("no, wait".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    let found_then = found(&mut harness);
    assert!(found_then[0].starts_with("Denied Denied: superseded"), "{found_then:?}");
    assert_eq!(sent(&harness, 0).last().unwrap(), "no, wait");
    harness.check().await;

    let read = TestTool::new("search").answers("3 hits");
    let mut harness = Harness::new(searching(search), [Script::text("ok")], |a| a.tool(read)).await;
    harness.handle.send(InputEvent::Steer("soon".into())).await.unwrap();
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(found(&mut harness), ["Ok 3 hits"]);
}

/// C141: Invalid arguments, a missing tool and a failing tool lead to results.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_run_has_a_result_that_says_why() {
    for (call, expected) in [
        (Call::new("none", json!({})), "no tool"),
        (Call::new("search", json!(7)), "object"),
        (Call::new("search", json!({})), "out of order"),
    ] {
        let calling = does(move |step| Box::pin(search_first(step, call.clone())));
        let tool = TestTool::new("search").fails("out of order");
        let mut harness = Harness::new(calling, [Script::text("ok")], |a| a.tool(tool)).await;
        harness.handle.prompt("go").await.unwrap();
        let found = found(&mut harness);
        assert!(found[0].starts_with("Error ") && found[0].contains(expected), "{found:?}");
        harness.check().await;
    }
}

/// Asks for a colour, and emits the state of the question.
async fn paint(step: &mut StepContext<'_>, question: Question) -> Result<StepEnd, StepError> {
    step.take_input().await?;
    match step.question("colour", question).await? {
        QuestionStatus::Waiting => return Ok(StepEnd::AwaitingAction),
        asked => step.emit("asked", format!("{asked:?}")).await?,
    }
    step.take_messages().await?;
    step.ask().await?.finish()
}

fn painting(question: Question) -> impl BehaviorPattern + 'static {
    does(move |step| Box::pin(paint(step, question.clone())))
}

fn colour() -> Question {
    Question::choice("Which colour?", ["red", "blue"])
}

async fn painter(question: Question) -> Harness {
    let replies = ["ok", "later", "at last"].map(Script::text);
    let harness = Harness::new(painting(question), replies, |a| a).await;
    let outcome = harness.handle.prompt("Paint.").await.unwrap();
    assert_eq!((outcome.end, harness.model.requests().len()), (RunStatus::AwaitingAction, 0));
    harness
}

/// C142: A question is a pending action, which any process can answer. The pattern then gets the
/// answer. The model sees neither unless the question is shown.
#[tokio::test(start_paused = true)]
async fn a_question_waits_for_its_answer() {
    for shown in [false, true] {
        let harness = painter(if shown { colour().shown() } else { colour() }).await;
        let mut harness = harness.restart().await;
        let pending = harness.pending().await;
        assert_eq!(pending[0].question().map(|q| q.form), Some(colour().form));
        harness.resolve(0, input("blue")).await.unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!(found(&mut harness), ["Answered(String(\"blue\"))"]);
        let texts = sent(&harness, 0);
        assert_eq!(texts, if shown { vec!["Paint.", "", "blue"] } else { vec!["Paint."] });
        harness.check().await;
        check_log(&harness.memory.entries()).unwrap();
    }
}

/// C142: An answer that does not match the question, or that follows another answer, is refused.
/// The question waits as before.
#[tokio::test(start_paused = true)]
async fn an_answer_is_checked_before_it_is_accepted() {
    let mut harness = painter(colour()).await;
    for wrong in [
        input("green"),
        input(7),
        Decision::Approve,
        Decision::Provide(Provided::Result(ToolOutput::text("red"))),
    ] {
        let before = harness.memory.entries().len();
        let refused = harness.resolve(0, wrong.clone()).await;
        assert!(matches!(refused, Err(InputError::BadDecision(_))), "{wrong:?}: {refused:?}");
        assert_eq!(harness.memory.entries().len(), before);
    }
    let (action, handle) = (harness.pending().await.remove(0), harness.handle.clone());
    let answer = |colour: &str| handle.resolve(&action, input(colour));
    let (first, second) = tokio::join!(answer("red"), answer("blue"));
    assert_eq!((first.is_ok(), second), (true, Err(InputError::NotPending(action.call.clone()))));
    handle.wait_for_idle().await;
    assert_eq!(found(&mut harness), ["Answered(String(\"red\"))"]);
    assert_eq!(answer("blue").await, Err(InputError::NotPending(action.call.clone())));
}

/// C142: Wherever a crash cuts the log, the question is asked once, and an accepted answer is used.
#[tokio::test(start_paused = true)]
async fn a_question_is_asked_once_whatever_crashes() {
    let harness = painter(colour()).await;
    harness.resolve(0, input("blue")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let (expected, log) = (harness.transcript().await, harness.memory.entries());
    let first = log.iter().position(|e| matches!(e, LogEntry::RunStarted { .. })).unwrap();
    // The call and its question are one append.
    let ends_append = |cut: &usize| !matches!(log[*cut - 1], LogEntry::Called { .. });
    for cut in (first + 1..=log.len()).filter(ends_append) {
        let harness = Harness::new(painting(colour()), [Script::text("ok")], |a| a).await;
        let harness = harness.restart_from(log[..cut].to_vec()).await;
        let _ = harness.handle.continue_run().await; // there may be nothing to continue
        harness.handle.wait_for_idle().await;
        if !harness.pending().await.is_empty() {
            harness.resolve(0, input("blue")).await.unwrap();
            harness.handle.wait_for_idle().await;
        }
        assert_eq!(harness.transcript().await, expected, "after entry {cut}");
        let all = harness.memory.entries();
        let asked = all.iter().filter(|e| matches!(e, LogEntry::Called { .. })).count();
        assert_eq!(asked, 1, "after entry {cut}");
        harness.check().await;
    }
}

/// C143: The user can decline to answer. A steer instead of an answer supersedes the question, and
/// the pattern continues with the same request.
#[tokio::test(start_paused = true)]
async fn a_question_can_be_declined_or_superseded() {
    let mut harness = painter(colour()).await;
    harness.resolve(0, Decision::Deny("neither".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(found(&mut harness), ["Declined(\"neither\")"]);
    harness.check().await;

    let mut harness = painter(colour()).await;
    harness.handle.send(InputEvent::Steer("a green one".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(found(&mut harness), ["Superseded"]);
    assert_eq!(sent(&harness, 0), ["Paint.", "a green one"]);
    harness.check().await;
}

/// C143: The next request, and a request after an abort, ask again. The answer to the last question
/// answers no other one.
#[tokio::test(start_paused = true)]
async fn a_new_request_and_an_abort_withdraw_the_question() {
    let mut harness = painter(colour()).await;
    let old = harness.pending().await.remove(0);
    let outcome = harness.handle.prompt("Paint the door.").await.unwrap();
    assert_eq!((outcome.end, found(&mut harness).len()), (RunStatus::AwaitingAction, 0));
    let new = harness.pending().await.remove(0);
    assert_ne!(new.call, old.call);
    let late = harness.handle.resolve(&old, input("red")).await;
    assert_eq!(late, Err(InputError::NotPending(old.call)));

    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.pending().await, []);
    let late = harness.handle.resolve(&new, input("red")).await;
    assert_eq!(late, Err(InputError::NotPending(new.call)));
    assert_eq!(found(&mut harness).len(), 0);
    // When the request is continued, it asks again, because its question was withdrawn.
    assert_eq!(harness.handle.continue_run().await.unwrap().end, RunStatus::AwaitingAction);
    harness.check().await;
}

/// C143: A decision that arrives after a message that replaces it is refused, even before the
/// question is closed, because an accepted answer is always used.
#[tokio::test(start_paused = true)]
async fn an_answer_after_the_message_that_supersedes_it_is_refused() {
    let wrap = |memory| Arc::new(FaultyMemory::new(memory).slow(ms(10))) as Arc<dyn Memory>;
    let memory = InMemory::new();
    let replies = [Script::text("ok")];
    let mut harness = Harness::with_memory(painting(colour()), replies, |a| a, memory, wrap).await;
    harness.handle.prompt("Paint.").await.unwrap();
    let action = harness.pending().await.remove(0);
    harness.handle.send(InputEvent::Steer("a green one".into())).await.unwrap();
    let late = harness.handle.resolve(&action, input("red")).await;
    assert_eq!(late, Err(InputError::NotPending(action.call)));
    harness.handle.wait_for_idle().await;
    assert_eq!(found(&mut harness), ["Superseded"]);
}

/// C143: A secret is in no event, in no message and in no request. The pattern gets it.
#[tokio::test(start_paused = true)]
async fn a_secret_is_shown_to_nobody() {
    let secret = Question::secret("The password?").shown();
    let mut harness = painter(secret).await;
    harness.resolve(0, input("hunter2")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let events = harness.drain_events();
    let shown = |events: &[Arc<Envelope>]| serde_json::to_string(events).unwrap();
    let custom = |e: &Arc<Envelope>| matches!(e.event, AgentEvent::Custom { .. });
    let (own, other): (Vec<_>, Vec<_>) = events.into_iter().partition(custom);
    assert!(shown(&own).contains("hunter2"), "the pattern emits it itself");
    assert!(!shown(&other).contains("hunter2"));
    assert_eq!(sent(&harness, 0), ["Paint.", "", "The user has answered."]);
    let messages = replay_messages(&harness.memory.entries());
    assert!(!serde_json::to_string(&messages).unwrap().contains("hunter2"));
}

/// C143: A question that cannot be answered is an error of the pattern.
#[tokio::test(start_paused = true)]
async fn a_question_without_options_is_an_error() {
    let harness = Harness::new(painting(Question::choice::<&str>("?", [])), [], |a| a).await;
    let outcome = harness.handle.prompt("Paint.").await.unwrap();
    let error = outcome.error.unwrap();
    assert!(error.contains("the question cannot be asked: it has no options"), "{error}");
}
