//! The model's todo list in a compacted conversation.

use loopwright_core::AgentHandle;

use super::*;

fn write(call: &str, items: &[(&str, &str)]) -> Script {
    let item = |(content, status): &(&str, &str)| json!({ "content": content, "status": status });
    let todos: Vec<_> = items.iter().map(item).collect();
    Script::calls([(call, "write_todos", json!({ "todos": todos }))])
}

async fn session(keep_turns: usize, script: Vec<Script>) -> AgentHandle {
    let model = ScriptedModel::new(script).info(ModelInfo::new("test/m").with_context_window(9000));
    let agent = GenericAgent::builder(model, PiPattern).tool(Todo::new());
    let agent = agent.compaction(SummaryCompaction::new().keep_turns(keep_turns)).build().unwrap();
    agent.session().await.unwrap()
}

/// Compacts the conversation, and returns the todo list beside the summary.
async fn compacted(handle: &AgentHandle) -> Option<String> {
    let text = handle.compact(None).await.unwrap().remove(0).message.text();
    let list = text.split_once("Your todo list:\n")?.1.split_once("\nSummary:")?.0;
    Some(list.to_owned())
}

/// C517: A list that a compaction replaces stands beside its summary, also after the next ones,
/// until the model writes it again or completes it.
#[tokio::test(start_paused = true)]
async fn a_todo_list_survives_compactions() {
    let (done, open) = (("Read", "completed"), ("Fix", "in_progress"));
    let handle = session(
        1,
        vec![
            Script::text("r1"),
            write("a", &[("Read", "in_progress")]),
            write("b", &[done, open]),
            Script::text("r2"),
            Script::text("r3"),
            Script::text("first summary"),
            Script::text("r4"),
            Script::text("second summary"),
            write("c", &[done, ("Fix", "completed"), ("Test", "pending")]),
            Script::text("r5"),
            Script::text("third summary"),
            write("d", &[("Test", "completed")]),
            Script::text("r6"),
            Script::text("r7"),
            Script::text("fourth summary"),
        ],
    )
    .await;
    let prompt = async |n: usize| handle.prompt(words(&format!("p{n}"), 490)).await.unwrap();
    for n in 1..=3 {
        prompt(n).await;
    }
    let first = Some("[x] Read\n[>] Fix\n".to_owned());
    assert_eq!(compacted(&handle).await, first);
    prompt(4).await;
    assert_eq!(compacted(&handle).await, first, "the next summary replaces the first");
    prompt(5).await;
    assert_eq!(compacted(&handle).await.as_deref(), Some("[x] Read\n[x] Fix\n[ ] Test\n"));
    prompt(6).await;
    prompt(7).await;
    assert_eq!(compacted(&handle).await, None, "it is completed");
}

/// C517: The summary does not repeat a list that stays in the conversation.
#[tokio::test(start_paused = true)]
async fn a_todo_list_that_stays_is_not_repeated() {
    let (old, new) = ([("Read", "in_progress")], [("Fix", "in_progress")]);
    let handle = session(
        2,
        vec![
            write("a", &old),
            Script::text("r1"),
            write("b", &new),
            Script::text("r2"),
            Script::text("summary"),
            Script::text("r3"),
            Script::text("another summary"),
        ],
    )
    .await;
    handle.prompt("p1").await.unwrap();
    handle.prompt("p2").await.unwrap();
    assert_eq!(compacted(&handle).await, None);
    handle.prompt("p3").await.unwrap();
    assert_eq!(compacted(&handle).await.as_deref(), Some("[>] Fix\n"));
}

/// C517: A list that is too long for the window is cut: completed items first, then the last ones.
#[tokio::test(start_paused = true)]
async fn a_long_todo_list_is_cut() {
    let long = |name: &str| format!("{name} {}", "x".repeat(190));
    let names: Vec<String> = (0..50).map(|n| long(&n.to_string())).collect();
    let status = |n: usize| if n < 48 { "completed" } else { "pending" };
    let items: Vec<_> =
        names.iter().enumerate().map(|(n, name)| (name.as_str(), status(n))).collect();
    let script = vec![
        Script::text("r1"),
        write("a", &items),
        Script::text("r2"),
        Script::text("r3"),
        Script::text("summary"),
    ];
    let handle = session(1, script).await;
    for n in 1..=3 {
        handle.prompt(format!("p{n}")).await.unwrap();
    }
    let list = compacted(&handle).await.unwrap();
    let numbers: Vec<&str> = list.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert!(list.len() < 1_800, "{list}");
    assert_eq!(list.matches("[x]").count(), 4, "{list}");
    assert!(list.contains("[ ] 48") && list.contains("[ ] 49"), "{numbers:?}");
}
