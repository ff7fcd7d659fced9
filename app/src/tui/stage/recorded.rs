//! Recorded sessions: the events of each in a file of `recorded/`, one [`Envelope`] per line, as
//! `run --json` prints them.
//!
//! The end of this file defines the recordings: real tools in a temporary directory, and a scripted
//! model. After a change there, or of the form of events, record again with `cargo test -p
//! loopwright-cli --lib -- --ignored sessions_are_recorded`.

use std::path::PathBuf;

use loopwright_core::event::InputEvent;
use loopwright_core::model::{BlockKind, ModelErrorKind, ModelEvent};
use loopwright_core::testing::TestTool;
use loopwright_core::tool::Effect;
use loopwright_memory::SummaryCompaction;
use loopwright_tools::{Commands, Workspace, coding_tools_with};
use serde_json::json;

use super::*;

/// The time between recorded events, in milliseconds.
const PACE: u64 = 250;

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/tui/stage/recorded", &format!("{name}.jsonl")]
        .iter()
        .collect()
}

impl Stage {
    /// Opens a session that replays a recording up to the first event for which `stop` holds, or to
    /// its end.
    pub(super) async fn recorded(
        size: (u16, u16),
        name: &str,
        mut stop: impl FnMut(&AgentEvent) -> bool,
    ) -> Self {
        let mut stage = Stage::new(size, [], |agent| agent).await;
        let text = std::fs::read_to_string(file(name)).unwrap();
        for line in text.lines() {
            let event: Envelope =
                serde_json::from_str(line).unwrap_or_else(|why| panic!("{name}: {why}: {line}"));
            stage.state.tick(event.time);
            let effects = stage.state.event(&event);
            stage.perform(effects).await;
            if stop(&event.event) {
                break;
            }
        }
        stage
    }
}

// ---- recording ----------------------------------------------------------------------

const PARSER: &str = "//! Reads a file of settings.\n\npub fn parse(text: &str) -> Vec<(&str, \
    &str)> {\n    text.lines()\n        .filter_map(|line| line.split_once('='))\n        \
    .map(|(key, value)| (key.trim(), value.trim()))\n        .collect()\n}\n";

const THOUGHT: &str = "The user asks how the parser works. I have read `src/parser.rs`, so I can \
    answer right away. It has no tokens and no tree: each line is split at its first equals sign, \
    and lines without one are passed over in silence. That last thing is worth a word, since it \
    hides mistakes. A table of what becomes of which line will tell it best.";

const ANSWER: &str = "## How the parser works\n\nIt reads **one setting a line**, in three \
    steps:\n\n1. Lines are split at their first `=`.\n2. Lines without one are *passed over*, and \
    nobody is told.\n3. Both sides are trimmed.\n\n| Line | Key | Value |\n\
    |:-----|:----|:------|\n| `width = 80` | `width` | `80` |\n| `motto = a = b` | `motto` | `a = \
    b` |\n| `no settings here` | | passed over |\n\nTo be told of such lines, return them:\n\n\
    ```rust\npub fn parse(text: &str) -> Result<Vec<(&str, &str)>, &str> {\n    // The first line \
    without `=` is the error.\n    text.lines().map(|line| \
    line.split_once('=').ok_or(line)).collect()\n}\n```\n\nShall I change it?\n";

const TESTS: &str = "for n in 1 2 3 4 5 6 7 8 9; do echo \"test parser::tests::line_$n ... ok\"; \
    sleep 0.05; done; \
    echo; echo 'test result: ok. 9 passed; 0 failed'";

/// Splits a text into chunks of a few letters.
fn chunks(text: &str) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(24).map(|chunk| chunk.iter().collect()).collect()
}

/// Returns a reply that streams in chunks.
fn reply(text: &str) -> Script {
    Script::new().stream(chunks(text), Duration::ZERO)
}

/// Adds such a text as one block of several.
fn block(script: Script, block: u32, kind: BlockKind, text: &str) -> Script {
    let started = script.event(ModelEvent::BlockStart { block, kind });
    let reply = chunks(text)
        .into_iter()
        .fold(started, |script, delta| script.event(ModelEvent::Delta { block, delta }));
    reply.event(ModelEvent::BlockEnd { block, signature: None })
}

fn usage(input: u64, output: u64) -> Usage {
    Usage::new(input, output)
}

fn edit(old: &str, new: &str) -> serde_json::Value {
    json!({ "path": "src/parser.rs", "old_string": old, "new_string": new })
}

/// Returns a session with the real tools in a directory with a small program.
async fn session(replies: impl IntoIterator<Item = Script>) -> (Harness, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("src")).unwrap();
    std::fs::write(directory.path().join("src/parser.rs"), PARSER).unwrap();
    std::fs::write(directory.path().join("settings.txt"), "width = 80\nmotto = a = b\n").unwrap();
    let commands = Commands::new().unconfined();
    let tools = coding_tools_with(Workspace::open(directory.path()).unwrap(), commands);
    let options = |agent: AgentBuilder| {
        agent.tools(tools).compaction(SummaryCompaction::new().keep_turns(1).window(200_000))
    };
    (Harness::new(PiPattern, replies, options).await, directory)
}

fn write(name: &str, events: &[Arc<Envelope>]) {
    let line = |(n, event): (usize, &Arc<Envelope>)| {
        let time = BEGIN + PACE * u64::try_from(n).unwrap();
        let mut event = (**event).clone();
        event.time = time;
        serde_json::to_string(&event).unwrap() + "\n"
    };
    std::fs::write(file(name), events.iter().enumerate().map(line).collect::<String>()).unwrap();
}

async fn ask(harness: &Harness, text: &str) {
    harness.handle.send(InputEvent::UserRequest(text.into())).await.unwrap();
}

/// Returns the events up to the end of the run, approving each pending call.
async fn allowed(harness: &mut Harness) -> Vec<Arc<Envelope>> {
    let mut events = harness.run_end().await;
    while let Some(action) = harness.pending().await.first() {
        harness.handle.approve(action).await.unwrap();
        events.extend(harness.run_end().await);
    }
    events
}

#[tokio::test]
#[ignore = "rewrites the recordings"]
async fn sessions_are_recorded() {
    let answer =
        block(block(Script::new(), 0, BlockKind::Thinking, THOUGHT), 1, BlockKind::Text, ANSWER);
    let answer = answer.usage(usage(12_400, 310));
    let (mut harness, _directory) = session([answer]).await;
    ask(&harness, "How does the parser work?").await;
    write("answer", &harness.run_end().await);

    let inspect = reply("I look at what there is.")
        .call("c1", "list_directory", "{\"path\": \"src\"}")
        .call("c2", "read_file", "{\"path\": \"src/parser.rs\"}")
        .call("c3", "search_files", "{\"pattern\": \"trim\\\\(\\\\)\", \"path\": \"src\"}")
        .call("c4", "read_file", "{\"path\": \"src/lexer.rs\"}");
    let change = edit(
        "pub fn parse(text: &str) -> Vec<(&str, &str)> {\n    text.lines()",
        "pub fn parse(source: &str) -> Vec<(&str, &str)> {\n    source.lines()",
    );
    let replies = [
        inspect.usage(usage(2_100, 80)),
        Script::calls([("c5", "edit_file", change)]).usage(usage(2_900, 120)),
        Script::calls([("c6", "execute_command", json!({ "command": TESTS }))])
            .usage(usage(3_200, 60)),
        reply("The argument is called `source` now, and all **nine tests** pass.")
            .usage(usage(3_500, 30)),
    ];
    let (mut harness, _directory) = session(replies).await;
    ask(&harness, "Rename the argument of parse to source").await;
    write("work", &allowed(&mut harness).await);

    let calls = [
        ("c1", "edit_file", edit("pub fn", "pub(crate) fn")),
        ("c2", "edit_file", edit("line.split_once('=')", "line.split_once(\" = \")")),
        (
            "c3",
            "execute_command",
            json!({ "command": "cargo test --workspace\ncargo clippy --workspace --all-targets -- \
                -D warnings", "timeout": 600 }),
        ),
    ];
    let (mut harness, _directory) = session([Script::calls(calls)]).await;
    ask(&harness, "Keep parse to this crate, and split at spaced equals signs only").await;
    let mut events = harness.run_end().await;
    let first = harness.pending().await.remove(0);
    harness.handle.approve(&first).await.unwrap();
    events
        .extend(harness.until(|event| matches!(event, AgentEvent::ExternalActionEnd { .. })).await);
    write("asking", &events);

    let gate = loopwright_core::testing::Gate::new();
    let tool = TestTool::new("search_files").waits(&gate);
    let call =
        Script::calls([("c1", "search_files", json!({ "pattern": "split_once", "path": "src" }))]);
    let mut harness = Harness::new(PiPattern, [call], |agent| agent.tool(tool)).await;
    ask(&harness, "Where are lines split?").await;
    let mut events =
        harness.until(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
    harness.handle.steer("only in src").await.unwrap();
    harness
        .handle
        .steer("and say for each place\n- which file it is in\n- whether it can fail")
        .await
        .unwrap();
    harness
        .handle
        .follow_up(
            "then write a test for the lines that have no equals sign at all, and one for \
            an empty file",
        )
        .await
        .unwrap();
    for _ in 0..3 {
        events.extend(harness.until(|event| matches!(event, AgentEvent::QueueUpdate { .. })).await);
    }
    write("queues", &events);

    let replies = [
        reply("It has one function.").usage(usage(2_000, 10)),
        reply("It has none.").usage(usage(2_100, 10)),
    ];
    let replies = replies
        .into_iter()
        .chain([reply("The user asked after functions and tests of the parser.")]);
    let (mut harness, _directory) = session(replies).await;
    for request in ["What is in the parser?", "And which tests?"] {
        harness.handle.prompt(request).await.unwrap();
    }
    harness.handle.compact(None).await.unwrap();
    write("compacted", &harness.drain_events());

    let sub_agent = |looks: &str, answer: &str| {
        let look = Script::calls([("c1", "read_file", json!({ "path": looks }))]);
        let run = ("c2", "execute_command", json!({ "command": format!("wc -l {looks}") }));
        let model = ScriptedModel::new([look, Script::calls([run]), reply(answer)]);
        let read = TestTool::new("read_file").answers("pub fn parse").effect(Effect::ReadOnly);
        let run = TestTool::new("execute_command").answers("7").effect(Effect::AtMostOnce);
        GenericAgent::builder(model, PiPattern).tool(read).tool(run).build()
    };
    let task = |text: &str| json!({ "task": text });
    let calls = [
        ("c1", "reviewer", task("Review src/parser.rs: what does it pass over in silence?")),
        ("c2", "librarian", task("Find where settings.txt is described.")),
    ];
    let replies = [
        Script::calls(calls).usage(usage(2_000, 90)),
        reply("It passes over lines without an equals sign; nothing describes that."),
    ];
    let mut harness = stored(replies, |agent| {
        let review = "Lines without `=`.\nNothing else.";
        let reviewer = sub_agent("src/parser.rs", review).unwrap();
        let librarian = sub_agent("settings.txt", "Nowhere.").unwrap();
        agent.child("reviewer", "Reviews code.", reviewer).child(
            "librarian",
            "Finds passages.",
            librarian,
        )
    })
    .await;
    ask(&harness, "What does the parser pass over, and is that written anywhere?").await;
    write("sub_agents", &allowed(&mut harness).await);

    let why = "The key was refused by api.example.com: set EXAMPLE_API_KEY to one that is valid.";
    let (mut harness, _directory) = session([Script::error(ModelErrorKind::Auth, why)]).await;
    ask(&harness, "Hello").await;
    write("failed", &harness.run_end().await);
}
