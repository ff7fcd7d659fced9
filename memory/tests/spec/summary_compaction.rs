//! `SummaryCompaction`: the replaced turns, the time of a compaction, and the summary.

mod long;
mod todos;

use std::sync::Arc;

use loopwright_core::testing::{Harness, Script, ScriptedModel, TestClock, TestTool};
use loopwright_core::{
    agent::*, compaction::*, event::*, limits::*, log::*, message::*, model::*, tool::*,
};
use loopwright_memory::SummaryCompaction;
use loopwright_patterns::PiPattern;
use serde_json::json;

/// Returns a text that is estimated at this many tokens, including the message around it.
fn words(name: &str, tokens: usize) -> String {
    format!("{name}{}", ".".repeat((tokens - 8) * 3 - name.len()))
}

async fn harness(policy: SummaryCompaction, window: Option<u64>, replies: Vec<Script>) -> Harness {
    let tools = ["read_file", "write_file", "edit_file", "look"]
        .map(|name| Arc::new(TestTool::new(name)) as Arc<dyn Tool>);
    let mut info = ModelInfo::new("test/m");
    info.context_window = window;
    let model = ScriptedModel::new(replies).info(info);
    let agent = GenericAgent::builder(model.clone(), PiPattern).tools(tools).compaction(policy);
    let clock = TestClock::default();
    let agent = agent.environment(clock.clone()).model_named("small", model.clone());
    let agent = agent.build().unwrap();
    let memory = InMemory::new();
    let (handle, events) = agent.run(RunContext::new().memory(memory.clone())).await.unwrap();
    Harness { handle, events, model, agent, memory, clock }
}

/// Returns the first words of each message of a request.
fn sent(harness: &Harness, request: usize) -> Vec<String> {
    let head = |m: &Arc<Message>| m.text().chars().take_while(|c| !".\n".contains(*c)).collect();
    harness.model.requests()[request].messages.iter().map(head).collect()
}

fn compactions(harness: &mut Harness) -> Vec<Arc<Compaction>> {
    let of = |e: Arc<Envelope>| {
        if let AgentEvent::Compaction(done) = &e.event { Some(done.clone()) } else { None }
    };
    harness.drain_events().into_iter().filter_map(of).collect()
}

/// Sends prompts of 490 tokens each, p1 to pN.
async fn talk(harness: &Harness, prompts: std::ops::RangeInclusive<usize>) {
    for n in prompts {
        let outcome = harness.handle.prompt(words(&format!("p{n}"), 490)).await.unwrap();
        assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
    }
}

fn replies(n: std::ops::RangeInclusive<usize>) -> Vec<Script> {
    n.map(|n| Script::text(&words(&format!("r{n}"), 490))).collect()
}

const SHORTENED: &str = "(The conversation from after the first request up to here was shortened";

/// The threshold is a share of the window without the reserve for the reply, and includes the
/// tools. As many of the last turns stay as `keep_turns` or `keep_tokens` says.
#[tokio::test(start_paused = true)]
async fn it_compacts_at_a_share_of_the_window() {
    let policy = || SummaryCompaction::new().at(0.9);
    for (policy, messages) in [
        (policy().keep_turns(2).keep_tokens(0), 7),
        (policy().keep_turns(1).keep_tokens(0), 9),
        (policy().keep_turns(1).keep_tokens(1500), 7),
        (policy().keep_turns(1).window(16_000), 0),
    ] {
        let mut script = replies(1..=5);
        script.extend([Script::text("sum"), Script::text("r6")]);
        let mut harness = harness(policy, Some(8000), script).await;
        talk(&harness, 1..=5).await;
        assert_eq!(compactions(&mut harness).len(), 0, "4,410 tokens and the tools, of 5,400");
        talk(&harness, 6..=6).await;
        let done = compactions(&mut harness); // at 5,390 and the tools
        assert_eq!(done.iter().map(|done| done.messages).sum::<usize>(), messages);
        if messages == 7 {
            assert_eq!(sent(&harness, 6), ["p1", SHORTENED, "p5", "r5", "p6"]);
        }
    }
}

/// If the window is unknown, a compaction starts when the user asks for it, with the given model,
/// prompt and instructions, or after the model has refused a request.
#[tokio::test(start_paused = true)]
async fn without_a_window_it_compacts_only_on_demand_or_after_an_overflow() {
    let mut script = replies(1..=4);
    script.extend([
        Script::text("sum one"),
        Script::error(ModelErrorKind::ContextOverflow, "too much"),
    ]);
    script.extend([Script::text("sum two"), Script::text("r5")]);
    let policy = SummaryCompaction::new().model("small").prompt("Be brief.").keep_turns(1);
    let mut harness = harness(policy, None, script).await;
    talk(&harness, 1..=4).await;
    let done = harness.handle.compact(Some("names")).await.unwrap();
    assert_eq!((done.len(), done[0].messages), (1, 5));
    let asked = &harness.model.requests()[4];
    assert!(
        asked.messages[0]
            .text()
            .ends_with("</conversation>\n\nBe brief.\n\nThe user asks of it: names")
    );
    assert!(asked.max_tokens.is_some() && !asked.system.is_empty());
    assert_eq!(
        harness.handle.compact(None).await.unwrap(),
        [],
        "only turns that must stay are left"
    );
    talk(&harness, 5..=5).await;
    assert_eq!(compactions(&mut harness).last().unwrap().why, CompactionCause::Overflow);
    assert_eq!(sent(&harness, 7), ["p1", SHORTENED, "p5"]);
    assert!(
        harness.model.requests()[6].messages[0].text().contains("sum one"),
        "the previous summary is summarised too"
    );
}

/// The names of files of successful calls survive compactions. If not all fit, the files edited
/// last take precedence.
#[tokio::test(start_paused = true)]
async fn files_that_were_read_and_edited_are_kept() {
    let call =
        |id: &str, tool: &str, path: &str| Script::calls([(id, tool, json!({ "path": path }))]);
    let mut script = vec![
        call("a", "read_file", "a.rs"),
        call("b", "read_file", "b.rs"),
        call("c", "edit_file", "b.rs"),
        call("d", "write_file", "c.rs"),
        call("e", "read_file", "c.rs"),
        call("f", "look", "never.rs"),
        Script::calls([("g", "read_file", json!({ "file": "unknown.rs" }))]),
        Script::calls([("h", "look", json!({ "at": "seen.rs" }))]),
        call("i", "no_such_tool", "failed.rs"),
        Script::text("done"),
    ];
    script.extend(replies(2..=2));
    script.extend([
        Script::text("sum"),
        call("j", "read_file", "later.rs"),
        Script::text("yes"),
        Script::text("sum"),
    ]);
    let harness = harness(
        SummaryCompaction::new().keep_turns(1).reads("look", "at").reads("no_such_tool", "path"),
        None,
        script,
    )
    .await;
    talk(&harness, 1..=2).await;
    let done = harness.handle.compact(None).await.unwrap().remove(0);
    let text = done.message.text();
    assert!(
        text.contains(
            "Files edited:\n- b.rs\n- c.rs\n\nFiles read:\n- a.rs\n- seen.rs\n\nSummary:\nsum"
        ),
        "{text}"
    );
    talk(&harness, 3..=3).await;
    let done = harness.handle.compact(None).await.unwrap().remove(0);
    let text = done.message.text();
    assert!(
        text.contains(
            "Files edited:\n- b.rs\n- c.rs\n\nFiles read:\n- a.rs\n- seen.rs\n- later.rs\n"
        ),
        "{text}"
    );

    let batches = (0..80).map(|n| {
        let tool = if n % 2 == 0 { "read_file" } else { "edit_file" };
        Script::calls([(&*format!("c{n}"), tool, json!({ "path": format!("src/{n:0>20}.rs") }))])
    });
    let mut script: Vec<Script> = batches.collect();
    script.extend([Script::text("done"), Script::text("r2"), Script::text("sum")]);
    let model = ScriptedModel::new(script).info(ModelInfo::new("test/m").with_context_window(9000));
    let tools =
        ["read_file", "edit_file"].map(|name| Arc::new(TestTool::new(name)) as Arc<dyn Tool>);
    let agent =
        GenericAgent::builder(model, PiPattern).tools(tools).limits(Budget::default().turns(100));
    let agent = agent.compaction(SummaryCompaction::new().keep_turns(1)).build().unwrap();
    let handle = agent.session().await.unwrap();
    handle.prompt("p1").await.unwrap();
    handle.prompt("p2").await.unwrap();
    let text = handle.compact(None).await.unwrap().remove(0).message.text();
    let named = |n: usize| text.contains(&format!("src/{n:0>20}.rs"));
    let edited = (1..80).step_by(2).filter(|n| named(*n)).count();
    let read = (0..80).step_by(2).filter(|n| named(*n)).count();
    assert!(
        named(79) && named(1) && edited == 40 && read < 40,
        "{edited} edited, {read} read: {text}"
    );
    assert!(
        text.contains(&format!("(and {} more that were touched before)", 80 - edited - read)),
        "{text}"
    );
    assert!(text.len() < 3 * 421 + 300, "a sixteenth of the window: {}", text.len());
}

/// If a summary fails, the dropped turns are counted, and the previous summary and files stay.
#[tokio::test(start_paused = true)]
async fn a_failed_summary_keeps_the_one_before() {
    let mut script = replies(1..=2);
    script.extend([Script::text("the sum")]);
    script.extend(replies(3..=4));
    script.extend([Script::error(ModelErrorKind::Overloaded, "busy"), Script::text("r5")]);
    let mut harness = harness(SummaryCompaction::new().keep_turns(1), Some(4000), script).await;
    talk(&harness, 1..=4).await;
    assert_eq!(compactions(&mut harness).len(), 1);
    talk(&harness, 5..=5).await;
    let done = compactions(&mut harness).remove(0);
    assert_eq!((done.summarised, done.error.as_deref()), (false, Some("busy")));
    let text = done.message.text();
    assert!(
        text.contains("Summary:\nthe sum\n\n(2 turns were left out without a summary.)"),
        "{text}"
    );
}

/// If a summary fails and the request fits into the window, nothing is left out. Another summary is
/// requested once the conversation has grown.
#[tokio::test(start_paused = true)]
async fn a_failed_summary_leaves_nothing_out_while_the_request_fits() {
    let mut script = replies(1..=4);
    script.extend([
        Script::error(ModelErrorKind::Overloaded, "busy"),
        Script::text("r5"),
        Script::text("small"),
    ]);
    script.extend([Script::text("the sum"), Script::text("r7")]);
    // The threshold is 3,600 of 4,500 tokens.
    let mut harness = harness(SummaryCompaction::new().keep_turns(1), Some(6000), script).await;
    talk(&harness, 1..=4).await;
    let outcome = harness.handle.prompt(words("p5", 300)).await.unwrap();
    assert_eq!((outcome.end, compactions(&mut harness).len()), (RunStatus::Done, 0));
    assert_eq!(sent(&harness, 5).len(), 9, "all of it");
    harness.handle.prompt("small").await.unwrap();
    assert_eq!(
        (compactions(&mut harness).len(), sent(&harness, 6).len()),
        (0, 11),
        "no other summary is requested so soon"
    );
    talk(&harness, 7..=7).await;
    let done = compactions(&mut harness).remove(0);
    assert!(done.summarised && done.message.text().contains("Summary:\nthe sum\n"), "{done:?}");
}

/// Numbers messages, for a policy without an agent.
fn messages(bodies: impl IntoIterator<Item = MessageKind>) -> Vec<Arc<Message>> {
    (1..).zip(bodies).map(|(n, body)| Arc::new(Message::new(MessageId(n), body))).collect()
}

fn reply(text: &str) -> MessageKind {
    let parts = vec![ContentPart::Text { text: text.into(), signature: None }];
    AssistantMessage::new(parts).into()
}

/// An edit that a crash or an abort cut off may have changed the file. A refused or failed edit and
/// an interrupted read have not.
#[test]
fn files_of_interrupted_edits_are_kept() {
    use ResultStatus::*;
    let calls = [
        ("edit_file", "ok", Ok),
        ("edit_file", "unknown", OutcomeUnknown),
        ("write_file", "aborted", Aborted),
        ("edit_file", "failed", Error),
        ("edit_file", "denied", Denied),
        ("edit_file", "skipped", Skipped),
        ("read_file", "cut", Aborted),
    ];
    let call = |(tool, path, _): (&str, &str, ResultStatus)| {
        let arguments = json!({ "path": path }).to_string();
        ContentPart::ToolCall(ToolCall::new(path, tool, arguments))
    };
    let result = |(tool, path, status): (&str, &str, ResultStatus)| {
        MessageKind::from(ToolResult::new(path, tool, status, Vec::new()))
    };
    let with_calls = AssistantMessage::new(calls.map(call).to_vec());
    let end = [reply("done"), UserMessage::from("p2").into(), reply("done")];
    let bodies = [UserMessage::from("p1").into(), with_calls.into()]
        .into_iter()
        .chain(calls.map(result))
        .chain(end);
    let messages = messages(bodies);
    let why = CompactionCause::Asked { instructions: None };
    let policy = SummaryCompaction::new().keep_turns(1);
    let context = CompactionContext::new(&messages, &why);
    let plan = policy.plan(&context).unwrap();
    let text = policy.finish(&context, &plan, Some("sum")).message.text();
    assert!(text.contains("\nFiles edited:\n- ok\n- unknown\n- aborted\n\nSummary:\n"), "{text}");
}

/// For a named summary model whose window is unknown, requests are limited to 32,000 tokens.
#[test]
fn an_unknown_window_is_assumed_to_be_small() {
    let turns = (0..6)
        .flat_map(|n| [reply(&words("r", 10_000)), UserMessage::from(format!("p{n}")).into()]);
    let first = [UserMessage::from("p").into()];
    let messages = messages(first.into_iter().chain(turns));
    let why = CompactionCause::Asked { instructions: None };
    let windows = |name: Option<&str>| name.is_none().then_some(200_000);
    let context = CompactionContext::new(&messages, &why).windows(&windows);
    for (policy, in_parts) in
        [(SummaryCompaction::new(), false), (SummaryCompaction::new().model("small"), true)]
    {
        let plan = policy.keep_turns(1).plan(&context).unwrap();
        let size = plan.summary.unwrap().message.text().len() / 3;
        assert_eq!((plan.more, size < 32_000), (in_parts, in_parts), "{size}");
    }
}

/// Turns that exceed one request for a summary are summarised in several, the oldest first. A turn
/// that exceeds a request alone is left out without a request.
#[tokio::test(start_paused = true)]
async fn turns_that_exceed_one_request_are_summarised_in_several() {
    let script =
        |n| vec![Script::text(&words("r1", n)), Script::text(&words("r2", n)), Script::text("r3")];
    for (size, messages) in [(500, vec![1, 3]), (2000, vec![1, 3])] {
        let mut script = script(size);
        script.extend((0..2).map(|n| Script::text(&format!("sum {n}"))));
        let small = ScriptedModel::new([Script::text("sum 1"), Script::text("sum 2")])
            .info(ModelInfo::new("test/small").with_context_window(1600));
        let model =
            ScriptedModel::new(script).info(ModelInfo::new("test/m").with_context_window(32_000));
        let agent = GenericAgent::builder(model, PiPattern).model_named("small", small.clone());
        let agent = agent
            .compaction(SummaryCompaction::new().keep_turns(1).model("small"))
            .max_tokens(100)
            .build()
            .unwrap();
        let handle = agent.session().await.unwrap();
        for prompt in ["p1", "p2", "p3"] {
            handle.prompt(prompt).await.unwrap();
        }
        let done = handle.compact(None).await.unwrap();
        assert_eq!(done.iter().map(|d| d.messages).collect::<Vec<_>>(), messages, "{size}");
        let asked = small.requests().len();
        let text = done[1].message.text();
        if size == 2000 {
            assert!(
                asked == 0 && text.contains("(2 turns were left out without a summary.)"),
                "{asked} {text}"
            );
        } else {
            assert!(asked == 2 && text.contains("Summary:\nsum 2\n"), "{asked} {text}");
        }
    }
}
