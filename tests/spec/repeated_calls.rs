//! The guard against calls that are repeated without a new result.

use std::sync::atomic::{AtomicUsize, Ordering};

use loopwright_core::tool_fn;

use crate::kit::*;

const NOTE: &str = "[The same calls had the same results 3 times: ";

/// The replies of a model, by number.
type Reply<'a> = &'a dyn Fn(usize) -> Script;

fn guarded(agent: AgentBuilder) -> AgentBuilder {
    agent.limits(Limits::default().loop_guard(LoopGuard::new()))
}

/// Returns a tool `look` that finds nothing.
fn look() -> TestTool {
    TestTool::new("look").answers("nothing")
}

/// Returns the notes in the conversation.
async fn notes(harness: &Harness) -> Vec<String> {
    let transcript = harness.transcript().await;
    transcript.into_iter().filter(|line| line.starts_with(&format!("U:{NOTE}"))).collect()
}

/// C496: After the same calls had the same results three times, the model gets a note, and after
/// five times the run ends, whatever the order of the arguments and the text beside the calls. Two
/// replies that alternate count as one.
#[tokio::test(start_paused = true)]
async fn repeated_calls_get_a_note_and_then_end_the_run() {
    let arguments = |at: usize| [r#"{"a": 1, "b": 2}"#, r#"{"b":2,"a":1}"#][at % 2];
    let same =
        |at: usize| Script::new().say(&format!("Again {at}.")).call("c", "look", arguments(at));
    let both = |_: usize| calls(&["look", "find", "look"]);
    let alternating = |at: usize| calls(&[["look", "find"][at % 2]]);
    let unknown = |_: usize| calls(&["no_such_tool"]);
    let cases: [(Reply<'_>, usize, &str); 4] = [
        (&same, 1, "`look`"),
        (&both, 1, "`look`, `find`"),
        (&alternating, 2, "`look`, then `find`"),
        (&unknown, 1, "`no_such_tool`"),
    ];
    for (reply, period, names) in cases {
        let tools = [look(), TestTool::new("find").fails("It is broken.")];
        let harness = pi_with((0..20).map(reply), &tools, guarded).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        let limit = Limit::RepeatedCalls;
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(limit)), "{outcome:?}");
        let why = "the limit of repeated calls is reached: the same calls had the same results 5 \
                   times: ";
        assert_eq!(outcome.error.as_deref(), Some(&*format!("{why}{names}")));
        let requests = harness.model.requests();
        assert_eq!(requests.len(), 5 * period);
        let last = requests[3 * period].messages.last().unwrap().text();
        assert!(last.starts_with(&format!("{NOTE}{names}. ")), "{last}");
        assert!(last.contains("when they have been made 5 times"), "{last}");
        assert_eq!(notes(&harness).await.len(), 1);
        harness.check().await;
        // A message of the user restarts the count.
        let outcome = harness.handle.prompt("Go on.").await.unwrap();
        assert_eq!(outcome.limit, Some(limit));
        assert_eq!(harness.model.requests().len(), 10 * period);
        assert_eq!(notes(&harness).await.len(), 2);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

/// C496: What waits for something is not stuck: a result that differs, a call that takes a second,
/// a tool that polls, other arguments, and calls of the pattern restart the count.
#[tokio::test(start_paused = true)]
async fn polling_is_not_punished() {
    let changes = AtomicUsize::new(0);
    let counter = tool_fn("counter", "Counts.", move |_: NoArguments, _cx| {
        let now = changes.fetch_add(1, Ordering::Relaxed) / 2; // each result twice
        async move { Ok::<_, ToolError>(format!("{now}")) }
    });
    let counter: Arc<dyn Tool> = Arc::new(counter.effect(Effect::ReadOnly));
    let wait = TestTool::new("wait").takes(ms(1_000));
    let quick = TestTool::new("quick").takes(ms(999));
    let polling = LoopGuard::new().polling(["look"]);
    let named = |name: &'static str| move |_: usize| calls(&[name]);
    let waits = |at: usize| calls(&[["look", "wait"][at % 2]]);
    let pages = |at: usize| Script::new().call("c", "look", &format!("{{\"page\": {at}}}"));
    let cases: [(Reply<'_>, LoopGuard, bool); 7] = [
        (&named("look"), LoopGuard::new(), true),
        (&named("quick"), LoopGuard::new(), true),
        (&named("counter"), LoopGuard::new(), false),
        (&named("wait"), LoopGuard::new(), false),
        (&waits, LoopGuard::new(), false),
        (&named("look"), polling, false),
        (&pages, LoopGuard::new(), false),
    ];
    for (number, (reply, guard, is_stuck)) in cases.into_iter().enumerate() {
        let replies = (0..12).map(reply).chain([Script::text("Done.")]);
        let tools = [look(), wait.clone(), quick.clone()];
        let harness = pi_with(replies, &tools, |agent| {
            let limits = Limits::default().loop_guard(guard);
            agent.tools([counter.clone()]).limits(limits)
        });
        let harness = harness.await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        let limit = is_stuck.then_some(Limit::RepeatedCalls);
        assert_eq!(outcome.limit, limit, "{number}: {outcome:?}");
        assert_eq!(notes(&harness).await.len(), usize::from(is_stuck), "{number}");
        harness.check().await;
    }
    let harness = pi_with([calls(&["wait"])], &[wait], guarded).await;
    harness.handle.prompt("go").await.unwrap();
    let seconds = harness.memory.entries().into_iter().find_map(|entry| match entry {
        LogEntry::CallFinished { result } => Some(result.as_tool_result()?.seconds),
        _ => None,
    });
    assert_eq!(seconds, Some(1));
}

/// C496: A decision of a person restarts the count.
#[tokio::test(start_paused = true)]
async fn a_decision_begins_the_count_anew() {
    let tool = look().spec(|spec| spec.approval(Approval::Always));
    let replies = (0..8).map(|_| calls(&["look"])).chain([Script::text("Done.")]);
    let harness = pi_with(replies, &[tool], guarded).await;
    harness.handle.prompt("go").await.unwrap();
    while let Some(action) = harness.pending().await.first() {
        harness.handle.approve(action).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Done./Stop");
    assert_eq!(notes(&harness).await.len(), 0);
}

/// C496: A sleep between the calls restarts the count, and so does `Continue` after the limit. A
/// message that the pattern adds after the results does not.
#[tokio::test(start_paused = true)]
async fn a_sleep_begins_the_count_anew() {
    let pattern = |sleeps: bool| {
        does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                loop {
                    let reply = step.ask().await?.or_end()?;
                    let round: u32 = step.state("round").unwrap_or_default();
                    if !step.call_tools(&reply).await?.wants_reply() {
                        return Ok(StepEnd::Done);
                    }
                    if sleeps {
                        step.sleep_for(&format!("{round}"), ms(1_000)).await?;
                    }
                    step.set_state("round", round + 1)?;
                    step.remember(UserMessage::from("Look again.")).await?;
                }
            })
        })
    };
    for sleeps in [false, true] {
        let replies = (0..8).map(|_| calls(&["look"])).chain([Script::text("Done.")]);
        let agent = |agent: AgentBuilder| guarded(agent).tool(look());
        let harness = Harness::new(pattern(sleeps), replies, agent).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.limit.is_none(), sleeps, "{outcome:?}");
        if sleeps {
            for _ in 0..9 {
                harness.clock.advance(ms(1_000)).await;
                harness.handle.wait_for_idle().await;
            }
            assert_eq!(harness.transcript().await.last().unwrap(), "A:Done./Stop");
        } else {
            assert_eq!(harness.model.requests().len(), 5);
            harness.handle.send(InputEvent::Continue(None)).await.unwrap();
            harness.handle.wait_for_idle().await;
            assert_eq!(harness.model.requests().len(), 9);
        }
    }
}

/// A pattern that polls by itself, and then asks the model.
struct Polls;

#[async_trait::async_trait]
impl BehaviorPattern for Polls {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        for _ in 0..9 {
            step.call(Call::new("look", json!({}))).await?;
        }
        for _ in 0..9 {
            let reply = step.ask().await?;
            step.call_tools(&reply).await?;
            step.call(Call::new("find", json!({})).hidden()).await?;
        }
        Ok(StepEnd::Done)
    }
}

/// C496: Calls that the pattern makes are no repetition of the model.
#[tokio::test(start_paused = true)]
async fn calls_of_the_pattern_do_not_count() {
    let replies = (0..9).map(|_| calls(&["look"]));
    let tools = |agent: AgentBuilder| guarded(agent.tool(look()).tool(TestTool::new("find")));
    let harness = Harness::new(Polls, replies, tools).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, outcome.limit), (RunStatus::Done, None), "{outcome:?}");
    assert_eq!(notes(&harness).await.len(), 0);
}

/// C496: A model that heeds the note continues, and a run that answers at its limit does so here.
#[tokio::test(start_paused = true)]
async fn the_model_can_heed_the_note_or_answer() {
    let looks = |count: usize| (0..count).map(|_| calls(&["look"]));
    let find = || [calls(&["find"])];
    let replies = looks(4).chain(find()).chain(looks(4)).chain([Script::text("Done.")]);
    let harness = pi_with(replies, &[look(), TestTool::new("find")], guarded).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Done."), "{outcome:?}");
    assert_eq!(notes(&harness).await.len(), 2);

    let limits = Limits::default().loop_guard(LoopGuard::new()).wrap_up(WrapUp::new());
    let replies = looks(5).chain([Script::text("I found nothing.")]);
    let harness = pi_with(replies, &[look()], |agent| agent.limits(limits)).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "I found nothing."));
    assert_eq!(outcome.limit, Some(Limit::RepeatedCalls));
    let last = harness.model.requests()[5].messages.last().unwrap().text();
    assert!(last.starts_with("[the limit of repeated calls is reached. No tool can be"), "{last}");
    harness.check().await;
}

/// Leaves out all but the last messages before each request.
struct Forgets;

impl CompactionPolicy for Forgets {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let len = context.messages.len();
        let is_result = |at: usize| context.messages[at].as_tool_result().is_some();
        let end = (1..len.saturating_sub(1)).rev().find(|end| !is_result(*end))?;
        (end > 1).then(|| CompactionPlan::new(1..end))
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        _: Option<&str>,
    ) -> Replacement {
        Replacement::new("(left out)")
    }
}

/// C497: The count follows from the log: wherever a crash cuts it, the conversation has one note,
/// and the run ends after the same calls, with compaction too.
#[tokio::test(start_paused = true)]
async fn crashes_and_compaction_do_not_change_the_count() {
    for (is_compacted, alternates) in [(false, false), (false, true), (true, false), (true, true)] {
        let open = async || {
            let tools = [look(), TestTool::new("find")];
            let harness = pi_with([], &tools, |agent| {
                let agent = guarded(agent);
                if is_compacted { agent.compaction(Forgets) } else { agent }
            });
            let harness = harness.await;
            let reply = move |request: &ChatRequest| {
                let last = request.messages.iter().rev().find_map(|m| m.as_tool_result());
                let has_looked = last.is_some_and(|result| &*result.name == "look");
                calls(&[if alternates && has_looked { "find" } else { "look" }])
            };
            drop(harness.model.clone().reply_with(reply)); // of all clones
            harness
        };
        let whole = open().await;
        let outcome = whole.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.limit, Some(Limit::RepeatedCalls));
        let transcript = whole.transcript().await;
        assert_eq!(notes(&whole).await.len(), 1);
        let log = whole.memory.entries();
        let compactions = log.iter().filter(|e| matches!(e, LogEntry::Compacted { .. })).count();
        assert_eq!(compactions > 2, is_compacted, "{compactions}");
        let began = log.iter().position(|entry| matches!(entry, LogEntry::RunStarted { .. }));
        for cut in began.unwrap() + 1..log.len() {
            let harness = open().await.restart_from(log[..cut].to_vec()).await;
            let outcome = harness.handle.continue_run().await.unwrap();
            let at = format!("{cut} of {}: {outcome:?}", log.len());
            assert_eq!(outcome.limit, Some(Limit::RepeatedCalls), "{at}");
            assert_eq!(harness.transcript().await, transcript, "{at}");
            harness.check().await;
        }
    }
}
