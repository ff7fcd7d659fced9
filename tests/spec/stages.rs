//! The stages of a pattern's work.

use loopwright_core::testing::{ScriptedSession, crash_at_every_append};
use loopwright_core::{GenericAgent, async_trait};
use serde_json::Value;

use crate::kit::*;

/// A pattern that plans, and then makes three calls at once, a number of times.
struct Work;

const READ: &str = "read/";

#[async_trait]
impl BehaviorPattern for Work {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        step.begin_stage("plan").await?;
        step.ask_with(Ask::detached().once("plan")).await?.or_end()?;
        step.begin_stage(Stage::new("read").branches(READ, 3)).await?;
        let call = |at: usize, tool| Call::new(tool, json!({})).key(format!("{READ}{at}"));
        let calls = ["look", "slow", "pay"].into_iter().enumerate();
        let calls = calls.map(|(at, tool)| call(at, tool)).collect::<Vec<_>>();
        step.call_all(calls).await?.ok_or(StepEnd::AwaitingAction)?;
        step.begin_stage("answer").await?;
        step.ask().await?.or_end()?;
        step.end_stage()?;
        Ok(StepEnd::Done)
    }
}

fn tools(agent: AgentBuilder) -> AgentBuilder {
    let pay = TestTool::new("pay").spec(|spec| spec.approval(Approval::Always));
    let slow = TestTool::new("slow").takes(ms(50)).effect(Effect::ReadOnly);
    agent.tool(TestTool::new("look").effect(Effect::ReadOnly)).tool(slow).tool(pay)
}

/// Returns the stages of each event that has them, as text.
fn shown(events: &[Arc<Envelope>]) -> Vec<String> {
    events.iter().filter_map(|event| Stage::all(&event.event)).map(|all| text(&all)).collect()
}

/// Returns the stages as text, such as `plan✓ read●3:1d1r1w`.
fn text(stages: &[Stage]) -> String {
    let text = |stage: &Stage| {
        let mark = if stage.until.is_some() { "✓" } else { "●" };
        let visits = if stage.visits > 1 { format!("×{}", stage.visits) } else { String::new() };
        let branches = stage.branches.as_ref().map(|branches| {
            let BranchCounts { of, done, failed, running, waiting, .. } = branches;
            format!("{of}:{done}d{failed}f{running}r{waiting}w")
        });
        format!("{}{visits}{mark}{}", stage.name, branches.unwrap_or_default())
    };
    stages.iter().map(text).collect::<Vec<_>>().join(" ")
}

async fn stages(handle: &AgentHandle) -> Vec<Stage> {
    handle.state().await.unwrap().stages
}

fn replies() -> [Script; 2] {
    [Script::text("A plan.").wait(ms(10)), Script::text("Done.").wait(ms(10))]
}

/// C540: A pattern says at which stage of its work it is, since when, and how often it was there.
/// The state and the log have the stages, an event has all of them when they change, and the next
/// request of the user begins without.
/// C541: The stages count branches by the keys of their works: done, failed, running, waiting.
#[tokio::test(start_paused = true)]
async fn the_stages_say_where_a_pattern_is() {
    let clock = PausedClock(Instant::now());
    let options = |agent| tools(agent).environment(clock);
    let mut harness = Harness::new(Work, [replies(), replies()].concat(), options).await;
    let outcome = harness.handle.prompt("Work.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert_eq!(text(&stages(&harness.handle).await), "plan✓ read●3:2d0f0r1w");
    harness.resolve(0, Decision::Deny("No.".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    let end = "plan✓ read✓3:2d1f0r0w answer✓";
    let all = stages(&harness.handle).await;
    assert_eq!(text(&all), end);
    for pair in all.windows(2) {
        assert!(pair[0].since < pair[1].since && pair[0].until == Some(pair[1].since), "{all:?}");
    }
    let events = harness.drain_events();
    let shown = shown(&events);
    let expected = [
        "plan●",
        "plan✓ read●3:0d0f0r0w",
        "plan✓ read●3:0d0f1r0w",
        "plan✓ read●3:0d0f2r0w",
        "plan✓ read●3:1d0f1r0w",
        "plan✓ read●3:2d0f0r0w",
        "plan✓ read●3:2d0f0r1w",
        "plan✓ read●3:2d0f0r0w",
        "plan✓ read●3:2d1f0r0w",
        "plan✓ read✓3:2d1f0r0w answer●",
        end,
    ];
    assert_eq!(shown, expected);
    assert!(matches!(events.last().unwrap().event, AgentEvent::AgentEnd(_)));
    assert_eq!(SessionLog::of(&harness.memory.entries()).stages(), all);
    let harness = harness.restart().await;
    assert_eq!(stages(&harness.handle).await, all);
    harness.handle.prompt("Again.").await.unwrap();
    assert_eq!(text(&stages(&harness.handle).await), "plan✓ read●3:2d0f0r1w");
    harness.handle.reset().await.unwrap();
    assert_eq!(stages(&harness.handle).await, []);
    harness.check().await;
}

/// C540: A stage that begins again keeps its place, and a visit that has begun changes nothing. A
/// value of another form is no list of stages.
#[tokio::test(start_paused = true)]
async fn a_stage_can_begin_again() {
    struct Rounds;
    #[async_trait]
    impl BehaviorPattern for Rounds {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            for (stage, visit) in [("draft", 1), ("review", 1), ("draft", 1), ("draft", 2)] {
                step.begin_stage(Stage::new(stage).visit(visit)).await?;
                step.wait_for(sleep(ms(10))).await?;
            }
            step.emit("stages", json!("another thing")).await?;
            Ok(StepEnd::Done)
        }
    }
    let mut harness = Harness::new(Rounds, [], |agent| agent).await;
    harness.handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
    let begun = harness.until(|event| Stage::all(event).is_some()).await;
    assert_eq!(shown(&begun), ["draft●"], "it is shown before its work ends");
    harness.run_end().await;
    let all = stages(&harness.handle).await;
    assert_eq!(text(&all), "draft×2● review✓");
    harness.check().await;
}

/// C540, C541: Wherever a crash cuts the log, the pattern ends at the same stages, and a reader of
/// the log sees the stages of the session.
#[tokio::test(start_paused = true)]
async fn after_a_crash_the_stages_are_those_of_the_log() {
    let agent = |model| tools(GenericAgent::builder(model, Work));
    let session =
        ScriptedSession::new([replies(), replies()].concat()).request("Work.").request("Again.");
    crash_at_every_append(agent, session.clone()).await.unwrap();
    crash_at_every_append(agent, session.join_appends()).await.unwrap();

    let harness = Harness::new(Work, replies(), tools).await;
    harness.handle.prompt("Work.").await.unwrap();
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    let log = harness.memory.entries();
    for cut in 1..=log.len() {
        let events = SessionLog::events("s", &log[..cut]);
        let shown = events.iter().rev().find_map(|event| Stage::all(&event.event));
        let place = |stages: &[Stage]| {
            let stages = stages.iter().map(|stage| (stage.name.clone(), stage.since, stage.until));
            stages.collect::<Vec<_>>()
        };
        let read = SessionLog::of(&log[..cut]);
        assert_eq!(place(read.stages()), place(&shown.unwrap_or_default()), "after {cut} entries");
    }
    let cut = log.iter().position(|entry| matches!(entry, LogEntry::CallStarted { .. })).unwrap();
    let read = SessionLog::of(&log[..=cut]);
    assert_eq!(text(read.stages()), "plan✓ read●3:0d0f1r0w");
    let since = read.stages()[1].since;
    let again = Harness::new(Work, [Script::text("Done.")], tools).await;
    let again = again.restart_from(log[..=cut].to_vec()).await;
    again.handle.send(InputEvent::Continue(None)).await.unwrap();
    again.handle.wait_for_idle().await;
    let all = stages(&again.handle).await;
    assert_eq!((text(&all).as_str(), all[1].since), ("plan✓ read●3:2d0f0r1w", since));
}

/// C541: Detached requests are branches too.
#[tokio::test(start_paused = true)]
async fn detached_requests_are_counted() {
    struct Reads;
    #[async_trait]
    impl BehaviorPattern for Reads {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            step.begin_stage(Stage::new("read").branches("read/", 3)).await?;
            let ask = |at| Ask::detached().key(format!("read/{at}"));
            step.ask_all((0..3).map(ask)).at_most(2).await?;
            step.end_stage()?;
            Ok(StepEnd::Done)
        }
    }
    let slow = |n: u64| Script::text("Read.").wait(ms(n * 10));
    let mut harness = Harness::new(Reads, [slow(1), slow(2), slow(3)], |agent| agent).await;
    harness.handle.prompt("Read.").await.unwrap();
    let events = harness.drain_events();
    let shown = shown(&events);
    assert_eq!(shown.first().unwrap(), "read●3:0d0f0r0w");
    assert_eq!(shown.last().unwrap(), "read✓3:3d0f0r0w");
    let done = |n| shown.iter().any(|text: &String| text.starts_with(&format!("read●3:{n}d")));
    assert!(done(1) && done(2), "{shown:?}");
    println!("{shown:?}");
    let json: Value = serde_json::to_value(stages(&harness.handle).await).unwrap();
    assert_eq!(json[0]["branches"], json!({ "key": "read/", "of": 3, "done": 3 }));
    harness.check().await;
}
