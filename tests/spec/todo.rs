//! The tool with which a model keeps a list of its work.

use loopwright_core::GenericAgent;
use loopwright_core::testing::{ScriptedSession, crash_at_every_append};
use serde_json::Value;

use crate::compaction::Keep;
use crate::kit::*;

/// Returns a list of items, each with the first letter of its status.
fn todos(items: &[&str]) -> Value {
    let item = |item: &&str| {
        let (status, content) = item.split_at(1);
        let status = match status {
            "c" => "completed",
            "i" => "in_progress",
            _ => "pending",
        };
        json!({ "content": content.trim(), "status": status })
    };
    json!({ "todos": items.iter().map(item).collect::<Vec<_>>() })
}

fn write(call: &str, items: &[&str]) -> Script {
    Script::calls([(call, "write_todos", todos(items))])
}

fn lists(agent: AgentBuilder) -> AgentBuilder {
    agent.tool(Todo::new())
}

/// Returns the list that the session has now, one item per line.
async fn list(handle: &AgentHandle) -> String {
    TodoList::of(&handle.state().await.unwrap().messages).to_string()
}

/// C515: A call replaces the list, without approval. A list that is too long, an item that is empty
/// or too long, and arguments of another form are errors that say what to correct; the list stays.
#[tokio::test(start_paused = true)]
async fn a_call_replaces_the_list_and_a_bad_list_changes_nothing() {
    let many: Vec<Value> =
        (0..51).map(|n| json!({ "content": n.to_string(), "status": "pending" })).collect();
    let one = |content: &str, status: &str| {
        json!({ "todos": [{ "content": "good", "status": "pending" },
            { "content": content, "status": status }] })
    };
    let bad = [
        (json!({ "todos": many }), "51 items, and at most 50 are possible: merge some"),
        (one(" \n\u{200b}", "pending"), "Item 2 is empty: write what to do"),
        (one(&"é".repeat(201), "pending"), "Item 2 has 201 characters, and at most 200"),
        (one("x", "done"), "/todos/1/status"),
        (json!({ "todos": [{ "content": "x" }] }), "status"),
        (json!({ "todos": [], "more": 1 }), "more"),
        (json!({}), "todos"),
    ];
    let good = write("c0", &["cRead", "i\u{1b}Fix\n \u{202e}it", "pTest"]);
    let replies =
        bad.iter().map(|(arguments, _)| Script::calls([("c1", "write_todos", arguments.clone())]));
    let end = [write("c9", &[]), Script::text("Done.")];
    let harness = pi_with([good].into_iter().chain(replies).chain(end), &[], lists).await;
    let outcome = harness.handle.prompt("Work.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Done);
    let state = harness.handle.state().await.unwrap();
    let results: Vec<_> = state.messages.iter().filter(|m| m.as_tool_result().is_some()).collect();
    for ((arguments, why), result) in bad.iter().zip(&results[1..]) {
        assert!(result.text().contains(why), "{arguments}: {}", result.text());
        assert!(result.as_tool_result().unwrap().is_error());
        assert_eq!(TodoList::written(result), None);
    }
    assert!(results[0].text().ends_with("1 of 3 completed, 1 in progress."));
    let (first, last) = (results[0].id, results.last().unwrap().id);
    let before = |end| {
        let messages = state.messages.iter().filter(|message| message.id < end);
        TodoList::of(&messages.cloned().collect::<Vec<_>>())
    };
    assert_eq!(before(first).items, []);
    assert_eq!(before(last).to_string(), "[x] Read\n[>] Fix it\n[ ] Test\n");
    assert!(before(last).is_open() && before(last).completed() == 1);
    assert_eq!(TodoList::written(results.last().unwrap()), Some(TodoList::default()));
    assert_eq!(list(&harness.handle).await, "");
    harness.check().await;
}

/// C515: Of two calls in one reply, the one that came last counts, for readers of events and of
/// the conversation.
#[tokio::test(start_paused = true)]
async fn of_two_calls_the_last_result_counts() {
    let both = Script::calls([
        ("c1", "write_todos", todos(&["pfirst"])),
        ("c2", "write_todos", todos(&["psecond"])),
    ]);
    let mut harness = pi_with([both, Script::text("Done.")], &[], lists).await;
    harness.handle.prompt("Work.").await.unwrap();
    let written = harness.drain_events().into_iter().filter_map(|event| match &event.event {
        AgentEvent::ToolExecutionEnd { result, .. } => TodoList::written(result),
        _ => None,
    });
    let last = written.last().unwrap().to_string();
    assert_eq!(list(&harness.handle).await, last);
}

/// C516: Wherever a crash cuts the log, the list is the last one whose result is in it, and the run
/// ends with the same list.
#[tokio::test(start_paused = true)]
async fn after_a_crash_the_list_is_the_last_that_was_acknowledged() {
    let replies = || {
        let first = write("c1", &["iRead", "pFix"]);
        let bad = write("c2", &["p "]);
        let second = write("c3", &["cRead", "iFix"]);
        [first, bad, second, Script::text("Read."), write("c4", &["cFix"]), Script::text("Fixed.")]
    };
    let session = ScriptedSession::new(replies()).request("Work.").request("Go on.");
    let agent = |model| lists(GenericAgent::builder(model, PiPattern));
    let report = crash_at_every_append(agent, session.clone()).await.unwrap();
    assert_eq!((report.calls, report.compared), (4, report.appends));
    crash_at_every_append(agent, session.join_appends()).await.unwrap();

    let harness = pi_with(replies(), &[], lists).await;
    harness.handle.prompt("Work.").await.unwrap();
    harness.handle.prompt("Go on.").await.unwrap();
    let log = harness.memory.entries();
    let mut expected = String::new();
    for cut in 1..=log.len() {
        if let LogEntry::CallFinished { result } = &log[cut - 1]
            && let Some(list) = TodoList::written(result)
        {
            expected = list.to_string();
        }
        let messages = SessionLog::of(&log[..cut]).messages();
        assert_eq!(TodoList::of(&messages).to_string(), expected, "after {cut} entries");
    }
    assert_eq!(expected, "[x] Fix\n");
}

/// C515: A restart, a compaction and a fork keep the list, a fork at an earlier message has the
/// list of that time, and a reset removes it.
#[tokio::test(start_paused = true)]
async fn the_list_is_a_part_of_the_conversation() {
    let replies = [
        write("c1", &["iRead"]),
        Script::text("Read."),
        write("c2", &["cRead", "iFix"]),
        Script::text("Fixed."),
        Script::text("a summary"),
    ];
    let policy = Keep { at: 100, keep: 1, full: 0 };
    let harness = pi_with(replies, &[], |agent| lists(agent).compaction(policy)).await;
    let first = harness.handle.prompt("Read.").await.unwrap();
    assert_eq!(first.end, RunStatus::Done);
    let early = harness.handle.state().await.unwrap().messages.last().unwrap().id;
    harness.handle.prompt("Fix.").await.unwrap();
    let done = harness.handle.compact(None).await.unwrap();
    assert_eq!(done[0].messages, 6, "all but the first and the last");
    let both = "[x] Read\n[>] Fix\n";
    assert_eq!(list(&harness.handle).await, both);
    let harness = harness.restart().await;
    assert_eq!(list(&harness.handle).await, both);

    let log = harness.memory.entries();
    let fork = |at| SessionLog::of(&SessionLog::branch(&log, at).log(log.clone())).messages();
    assert_eq!(TodoList::of(&fork(None)).to_string(), both);
    let at = SessionLog::entries_up_to(&log, early);
    assert_eq!(TodoList::of(&fork(at)).to_string(), "[>] Read\n");

    harness.handle.reset().await.unwrap();
    assert_eq!(list(&harness.handle).await, "");
    harness.check().await;
}

/// C515: A sub-agent keeps a list of its own.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_has_its_own_list() {
    let child = ScriptedModel::new([write("c1", &["iDig"]), Script::text("Dug.")]);
    let child = lists(GenericAgent::builder(child, PiPattern)).build().unwrap();
    let model = ScriptedModel::new([
        write("c1", &["iDelegate"]),
        Script::calls([("c2", "digger", json!({ "task": "Dig." }))]),
        Script::text("Done."),
    ]);
    let agent = lists(GenericAgent::builder(model, PiPattern)).child("digger", "Digs.", child);
    let (agent, store) = (agent.build().unwrap(), InMemoryStore::new());
    let handle = agent.open(&store, "root").await.unwrap();
    handle.prompt("Dig.").await.unwrap();
    assert_eq!(list(&handle).await, "[>] Delegate\n");
    let messages = handle.state().await.unwrap().messages;
    let result = messages.iter().rev().find_map(|message| message.as_tool_result()).unwrap();
    let session = result.details.as_ref().unwrap()["session"].as_str().unwrap();
    let log = SessionLog::of(&store.read(session, 0).await.unwrap());
    assert_eq!(TodoList::of(&log.messages()).to_string(), "[>] Dig\n");
}
