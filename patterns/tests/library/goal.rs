//! [`Goal`]: work until something says that the goal is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loopwright_core::compaction::{
    CompactionContext, CompactionPlan, CompactionPolicy, Replacement,
};
use loopwright_core::event::{Decision, RunStatus};
use loopwright_core::limits::Budget;
use loopwright_core::log::{LogEntry, check_log};
use loopwright_core::message::MessageKind;
use loopwright_core::model::{ChatRequest, ToolChoice};
use loopwright_core::session::{Call, Profile};
use loopwright_core::testing::{Harness, Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Approval, ToolOutput};
use loopwright_core::{AgentEvent, BehaviorPattern, GenericAgent, Message, ToolError, tool_fn};
use loopwright_patterns::{
    Clarify, GenericPattern, Goal, GoalEnd, GoalProgress, PiPattern, PlanExecute, ReAct, Reflect,
    SelfConsistency,
};
use serde_json::json;

use crate::kit::{assert_conforms, scenarios};
use crate::values::value;

/// Writes code, and says so once it is written.
fn writer(request: &ChatRequest) -> Script {
    let last = request.messages.last().unwrap();
    match request.tool_choice {
        ToolChoice::None => Script::text("It still subtracts."),
        _ if last.as_tool_result().is_some() => Script::text("Written."),
        _ => Script::calls([("w", "write", json!({}))]),
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Command {
    command: String,
}

/// Returns a tool like `execute_command` whose command succeeds the `passes`th time.
fn command(passes: usize, runs: &Arc<AtomicUsize>) -> impl loopwright_core::tool::Tool + use<> {
    let runs = runs.clone();
    tool_fn("execute_command", "Runs a command.", move |args: Command, _cx| {
        let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            let code = i32::from(run != passes);
            let text = format!("{}: exit code {code}", args.command);
            Ok::<_, ToolError>(ToolOutput::text(text).details(json!({ "exit_code": code })))
        }
    })
    .approval(Approval::Never)
}

/// C490: The other pattern works until the command exits with 0.
#[tokio::test(start_paused = true)]
async fn a_command_says_when_the_goal_is_reached() {
    let runs = Arc::new(AtomicUsize::new(0));
    let pattern = Goal::command("cargo test", PiPattern);
    let harness = Harness::new(pattern, [], |agent| {
        agent.tool(TestTool::new("write")).tool(command(3, &runs))
    });
    let harness = harness.await;
    drop(harness.model.clone().reply_with(writer)); // of all clones
    let outcome = harness.handle.prompt("Write add.").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Written."));
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    let transcript = harness.transcript().await;
    let sent_back = "U:The goal is not reached yet. Go on.\n\ncargo test: exit code 1";
    let again = format!("{sent_back}\n\nEarlier rounds:\n1. cargo test: exit code 1");
    let is_sent_back = |line: &&String| line.starts_with(sent_back);
    let messages: Vec<&String> = transcript.iter().filter(is_sent_back).collect();
    assert_eq!(messages, [sent_back, &again]);
    assert_eq!(ends(&harness.memory.entries()), [(true, 3)]);
    harness.check().await;
}

/// Returns the events at the ends of the work.
fn ends(log: &[LogEntry]) -> Vec<(bool, u32)> {
    let end = |entry: &LogEntry| match entry {
        LogEntry::Emitted { kind, data } => {
            let event = AgentEvent::Custom { kind: kind.clone(), data: data.clone() };
            GoalEnd::of(&event).map(|end| (end.reached, end.rounds))
        }
        _ => None,
    };
    log.iter().filter_map(end).collect()
}

/// Returns the events after rounds that did not reach the goal.
fn notes(log: &[LogEntry]) -> Vec<(u32, u32, String)> {
    let note = |entry: &LogEntry| match entry {
        LogEntry::Emitted { kind, data } => {
            let event = AgentEvent::Custom { kind: kind.clone(), data: data.clone() };
            GoalProgress::of(&event).map(|note| (note.round, note.rounds, note.why))
        }
        _ => None,
    };
    log.iter().filter_map(note).collect()
}

/// A policy that leaves out everything between the first message and a message after an answer.
struct Forgets;

impl CompactionPolicy for Forgets {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let is_user = |message: &Message| matches!(message.body, MessageKind::User(_));
        let end = context.messages.len().checked_sub(1).filter(|end| *end > 2)?;
        is_user(&context.messages[end]).then(|| CompactionPlan::new(1..end))
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

/// C490: Each round that does not reach the goal has an event that says why, on one line, and the
/// notes on earlier rounds outlive a compaction.
#[tokio::test(start_paused = true)]
async fn notes_on_earlier_rounds_outlive_a_compaction() {
    let (check, long) = (TestTool::new("check"), format!("First.\n{}\nLast.", "x".repeat(300)));
    let check = check.fails(&long);
    let pattern = Goal::call(Call::new("check", json!({})), PiPattern).rounds(4);
    let harness = Harness::new(pattern, [], |agent| {
        agent.tool(TestTool::new("write")).tool(check).compaction(Forgets)
    });
    let harness = harness.await;
    drop(harness.model.clone().reply_with(writer)); // of all clones
    harness.handle.prompt("Write add.").await.unwrap();
    let notes = notes(&harness.memory.entries());
    assert_eq!(notes.iter().map(|(round, ..)| *round).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let why = &notes[2].2;
    assert!(why.starts_with("First. xx") && why.ends_with("xx Last."), "{why}");
    assert_eq!((notes[2].1, why.chars().count()), (4, 203));

    let requests = harness.model.requests();
    let texts = |request: &ChatRequest| -> Vec<String> {
        request.messages.iter().map(|message| message.text()).collect()
    };
    let sent_back =
        requests.iter().map(texts).filter(|texts| texts[texts.len() - 1].contains("2. "));
    for texts in sent_back.collect::<Vec<_>>() {
        let last = format!("{long}\n\nEarlier rounds:\n1. {why}\n2. {why}");
        assert!(texts[texts.len() - 1].ends_with(&last), "{texts:?}");
        assert_eq!(texts.iter().filter(|text| text.contains("Go on.")).count(), 1, "{texts:?}");
    }
    harness.check().await;
}

/// C490: Loops with a state of their own go on when they are sent back.
#[tokio::test(start_paused = true)]
async fn other_loops_work_toward_a_goal() {
    let loops: [Arc<dyn BehaviorPattern>; 6] = [
        Arc::new(GenericPattern),
        Arc::new(PlanExecute::new(PiPattern)),
        Arc::new(Reflect::new("It must be good.", PiPattern)),
        Arc::new(SelfConsistency::new(3)),
        Arc::new(Clarify::new(PiPattern)),
        Arc::new(ReAct),
    ];
    for (number, pattern) in loops.into_iter().enumerate() {
        let runs = Arc::new(AtomicUsize::new(0));
        let goal = Goal::command("cargo test", pattern);
        let harness = Harness::new(goal, [], |agent| agent.tool(command(3, &runs))).await;
        drop(harness.model.clone().reply_with(|request| match &request.output {
            Some(output) if output.schema["properties"].get("question").is_some() => {
                Script::text(r#"{"question": null, "options": []}"#)
            }
            Some(_) => Script::text(&value(request).to_string()),
            None => Script::text("Written."),
        }));
        let outcome = harness.handle.prompt("Write add.").await.unwrap();
        assert_eq!(outcome.end, RunStatus::Done, "{number}: {outcome:?}");
        assert_eq!(ends(&harness.memory.entries()), [(true, 3)], "{number}");
        assert_eq!(runs.load(Ordering::Relaxed), 3, "{number}");
        harness.check().await;
    }
}

/// C490: When the rounds, the budget or the run's own limits are used up, it says how far it came.
#[tokio::test(start_paused = true)]
async fn without_rounds_or_budget_it_says_how_far_it_came() {
    let goal = || Goal::call(Call::new("check", json!({})), PiPattern);
    let turns = |count| Budget::default().turns(count);
    let cases = [
        (goal().rounds(2), turns(50), 2, 5),
        (goal().budget(turns(6)), turns(50), 2, 6),
        (goal(), turns(6), 2, 6),
        (goal().budget(turns(50)), turns(6), 2, 6),
        (goal(), turns(2), 0, 2),
    ];
    for (pattern, limits, checks, requests) in cases {
        let check = TestTool::new("check").fails("It subtracts.");
        let model = ScriptedModel::new([]).reply_with(writer);
        let agent = GenericAgent::builder(model.clone(), pattern)
            .tool(TestTool::new("write"))
            .tool(check.clone())
            .limits(limits);
        let handle = agent.build().unwrap().session().await.unwrap();
        let outcome = handle.prompt("Write add.").await.unwrap();
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Done, None), "{outcome:?}");
        assert_eq!(&*outcome.text, "It still subtracts.");
        assert_eq!((check.ran(), model.requests().len()), (checks, requests));
        // The user goes on.
        let outcome = handle.prompt("Try again.").await.unwrap();
        assert_eq!(&*outcome.text, "It still subtracts.");
    }
}

/// C490: The check waits for an approval like any call, and a judge has a model of its own.
#[tokio::test(start_paused = true)]
async fn the_check_is_approved_and_a_judge_has_its_own_model() {
    let check = TestTool::new("check").spec(|spec| spec.approval(Approval::Always));
    let pattern = Goal::call(Call::new("check", json!({})), PiPattern);
    let harness = Harness::new(pattern, [Script::text("Done.")], |agent| agent.tool(check.clone()));
    let harness = harness.await;
    let outcome = harness.handle.prompt("Write add.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    let pending = harness.handle.pending().await.unwrap();
    harness.handle.resolve(&pending[0], Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((check.ran(), harness.model.requests().len()), (1, 1));
    harness.check().await;

    let verdicts = [r#"{"reached": false, "why": "No."}"#, r#"{"reached": true, "why": ""}"#];
    let judge = ScriptedModel::new(verdicts.map(Script::text));
    let pattern = Goal::judge("It is locked.", Profile::new().model("judge"), PiPattern);
    let replies = ["It is open.", "It is locked."].map(Script::text);
    let named = judge.clone();
    let harness = Harness::new(pattern, replies, |agent| agent.model_named("judge", named)).await;
    assert_eq!(harness.handle.prompt("Lock it.").await.unwrap().text, "It is locked.");
    let asked = judge.requests()[0].messages.last().unwrap().text();
    assert_eq!(asked, "Is this goal reached? It is locked.");
}

/// C490: What the user says during a check is answered first, and the new answer is checked.
#[tokio::test(start_paused = true)]
async fn a_message_during_a_check_leads_to_another_check() {
    let check = TestTool::new("check").takes(Duration::from_millis(50));
    let replies = ["It is locked.", "It is painted too."].map(Script::text);
    let pattern = Goal::call(Call::new("check", json!({})), PiPattern);
    let harness = Harness::new(pattern, replies, |agent| agent.tool(check.clone())).await;
    let handle = harness.handle.clone();
    let running = tokio::spawn(async move { handle.prompt("Lock it.").await.unwrap() });
    while check.ran() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    harness.handle.follow_up("Paint it too.").await.unwrap();
    assert_eq!(running.await.unwrap().text, "It is painted too.");
    assert_eq!(check.ran(), 2);
    harness.check().await;
}

/// C490: Two goals in one pattern have their own keys, and a check that takes too long ends at the
/// pattern's limit.
#[tokio::test(start_paused = true)]
async fn goals_have_keys_and_checks_keep_to_the_budget() {
    let call = |tool: &'static str| Call::new(tool, json!({}));
    let first = Goal::call(call("one"), PiPattern).key("first");
    let (one, two) = (TestTool::new("one"), TestTool::new("two"));
    let tools = (one.clone(), two.clone());
    let harness = Harness::new(Goal::call(call("two"), first), [Script::text("Done.")], |agent| {
        agent.tool(tools.0).tool(tools.1)
    });
    let harness = harness.await;
    assert_eq!(harness.handle.prompt("Go.").await.unwrap().text, "Done.");
    assert_eq!((one.ran(), two.ran()), (1, 1));
    harness.check().await;

    let slow = TestTool::new("slow").hangs();
    let in_time = Budget::default().time(Duration::from_secs(60));
    let pattern = Goal::call(call("slow"), PiPattern).budget(in_time);
    let replies = ["Done.", "I do not know whether it works."].map(Script::text);
    let harness = Harness::new(pattern, replies, |agent| agent.tool(slow)).await;
    let outcome = harness.handle.prompt("Go.").await.unwrap();
    assert_eq!(&*outcome.text, "I do not know whether it works.");
    harness.check().await;
}

/// C490: Wherever a crash cuts the log, each answer is checked once.
#[tokio::test(start_paused = true)]
async fn after_a_crash_no_answer_is_checked_twice() {
    let open = async || {
        let check = TestTool::new("check").fails("It subtracts.");
        let pattern = Goal::call(Call::new("check", json!({})), PiPattern).rounds(2);
        let tools = check.clone();
        let harness =
            Harness::new(pattern, [], |agent| agent.tool(TestTool::new("write")).tool(tools));
        let harness = harness.await;
        drop(harness.model.clone().reply_with(writer)); // of all clones
        (harness, check)
    };
    let (whole, _) = open().await;
    let outcome = whole.handle.prompt("Write add.").await.unwrap();
    assert_eq!(&*outcome.text, "It still subtracts.");
    let log = whole.memory.entries();
    let finished = |log: &[LogEntry]| {
        let of_check = |entry: &&LogEntry| match entry {
            LogEntry::CallFinished { result } => {
                result.as_tool_result().is_some_and(|result| &*result.name == "check")
            }
            _ => false,
        };
        log.iter().filter(of_check).count()
    };
    let began = log.iter().position(|entry| matches!(entry, LogEntry::RunStarted { .. }));
    // An event and a message are in one append with the state before them.
    let is_whole =
        |cut: &usize| !matches!(log[*cut], LogEntry::Emitted { .. } | LogEntry::Remembered { .. });
    let noted = notes(&log);
    assert_eq!(noted.len(), 2);
    for cut in (began.unwrap() + 1..log.len()).filter(is_whole) {
        let (harness, check) = open().await;
        let harness = harness.restart_from(log[..cut].to_vec()).await;
        let outcome = harness.handle.continue_run().await.unwrap();
        let at = format!("{cut} of {}: {outcome:?}", log.len());
        assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "It still subtracts."), "{at}");
        assert!(check.ran() + finished(&log[..cut]) <= 2, "{at}");
        assert_eq!(ends(&harness.memory.entries()), [(false, 2)], "{at}");
        assert_eq!(notes(&harness.memory.entries()), noted, "{at}");
        check_log(&harness.memory.entries()).unwrap();
        harness.check().await;
    }
}

/// C490: The pattern conforms, with a judge and with a call.
#[tokio::test(start_paused = true)]
async fn work_toward_a_goal_conforms() {
    let judged = || Goal::judge("It is long.", Profile::new(), PiPattern);
    let answering = || scenarios(value).into_iter().map(|scenario| scenario.answers_at_limit());
    assert_conforms(judged, answering().collect()).await;
    let called = || Goal::call(Call::new("look", json!({})), PiPattern);
    assert_conforms(called, answering().collect()).await;
}
