//! A session of a thousand turns in a window of 32,000 tokens.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use loopwright_core::ToolError;
use loopwright_core::testing::check_request;
use loopwright_core::{agent::*, event::*, log::*, message::*, model::*, tool::*};
use loopwright_memory::SummaryCompaction;
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

const WINDOW_TOKENS: u64 = 32_000;
/// The number of replies to each prompt. The last one has no calls.
const REPLIES: usize = 5;
const PROMPTS: usize = 200;
const FILES: usize = 40;
const FIRST: &str = "Make the tests pass. This is the first request, and it stays word for word.";

/// A model that counts tokens in its own way. It reads and edits files, and refuses malformed and
/// oversized requests.
#[derive(Clone)]
struct Worker {
    info: ModelInfo,
    requests: Arc<Mutex<Vec<ChatRequest>>>,
    largest: Arc<AtomicU64>,
    refused: Arc<Mutex<Vec<String>>>,
    replies: Arc<AtomicUsize>,
}

/// Returns the number of tokens: one for three bytes of JSON, more than the estimate.
fn count(request: &ChatRequest) -> u64 {
    let json = |message: &Arc<Message>| serde_json::to_string(&message.body).unwrap().len();
    let tools: usize =
        request.tools.iter().map(|t| t.schema.to_string().len() + t.description.len() + 40).sum();
    (request.messages.iter().map(json).sum::<usize>() + tools + request.system.len()) as u64 / 3
}

fn is_summary(request: &ChatRequest) -> bool {
    request.system.starts_with("You summarise")
}

/// Returns the tools and files that a reply calls. Every file is read before it is edited, and some
/// are touched only once.
fn files(reply: usize) -> Vec<(&'static str, String)> {
    let name = |n: usize| format!("src/module_{}/file.rs", n % FILES.min(1 + reply / 5));
    match reply % REPLIES {
        4 => vec![],
        1 => vec![("edit_file", name(reply * 7)), ("read_file", name(reply * 3))],
        _ => vec![("read_file", name(reply))],
    }
}

impl ChatModel for Worker {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let tokens = count(&request);
        let wrong = check_request(&request).err();
        if let Some(why) =
            wrong.or_else(|| (tokens > WINDOW_TOKENS).then(|| format!("{tokens} tokens")))
        {
            self.refused.lock().unwrap().push(why.clone());
            return stream::iter([ModelEvent::Error(ModelError::new(
                ModelErrorKind::ContextOverflow,
                why,
            ))])
            .boxed();
        }
        self.largest.fetch_max(tokens, Ordering::Relaxed);
        let text = |block, text: String| {
            let start = ModelEvent::BlockStart { block, kind: BlockKind::Text };
            [
                start,
                ModelEvent::Delta { block, delta: text },
                ModelEvent::BlockEnd { block, signature: None },
            ]
        };
        let mut events = Vec::new();
        if is_summary(&request) {
            events.extend(text(0, format!("A summary. {}", "It says what happened. ".repeat(150))));
        } else {
            let reply = self.replies.fetch_add(1, Ordering::Relaxed);
            events.extend(text(
                0,
                format!("Reply {reply}. {}", "Because of this and that. ".repeat(reply * 31 % 40)),
            ));
            for (block, (tool, path)) in (1..).zip(files(reply)) {
                let kind = BlockKind::ToolCall { id: String::new(), name: tool.into() };
                events.push(ModelEvent::BlockStart { block, kind });
                events.push(ModelEvent::Delta {
                    block,
                    delta: json!({ "path": path, "reply": reply }).to_string(),
                });
                events.push(ModelEvent::BlockEnd { block, signature: None });
            }
        }
        self.requests.lock().unwrap().push(request);
        let usage = Usage::new(tokens, 50);
        events.push(ModelEvent::Done { stop: StopReason::Stop, usage });
        stream::iter(events).boxed()
    }
}

/// A tool that returns the lines of a file: a few, or very many.
struct FileTool(Arc<ToolSpec>);

#[async_trait]
impl Tool for FileTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, arguments: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let reply = arguments["reply"].as_u64().unwrap() as usize;
        let lines = if reply.is_multiple_of(23) { 300 } else { reply * 13 % 30 };
        Ok(ToolOutput::text(format!(
            "{}: {}",
            arguments["path"],
            "let x = \"a line\";\n".repeat(lines)
        )))
    }
}

fn tool(name: &str) -> Arc<dyn Tool> {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let spec =
        ToolSpec::with_schema(name, "Does something with a file.", schema).effect(Effect::ReadOnly);
    Arc::new(FileTool(Arc::new(spec)))
}

/// Returns the turns of the whole history after the first request: a message of the user, the reply
/// and its results.
fn turns(messages: &[Arc<Message>]) -> Vec<&[Arc<Message>]> {
    let mut starts = vec![1];
    for (at, pair) in (1..).zip(messages.windows(2)) {
        let begins = match &pair[1].body {
            MessageKind::User(_) => true,
            MessageKind::Assistant(_) => !matches!(pair[0].body, MessageKind::User(_)),
            _ => false,
        };
        if begins && at > 1 {
            starts.push(at);
        }
    }
    starts.push(messages.len());
    starts.windows(2).map(|w| &messages[w[0]..w[1]]).filter(|turn| !turn.is_empty()).collect()
}

/// Returns the expected text of a summary's request for these messages.
fn transcript(messages: &[Arc<Message>]) -> String {
    let mut text = String::new();
    for message in messages {
        match &message.body {
            MessageKind::User(user) => {
                text += &format!("<user>\n{}\n</user>\n", user.text().trim_end())
            }
            MessageKind::Assistant(reply) => {
                text += &format!("<assistant>\n{}\n", reply.text());
                for call in reply.calls() {
                    text += &format!("<call tool=\"{}\">{}</call>\n", call.name, call.arguments);
                }
                text += "</assistant>\n";
            }
            MessageKind::ToolResult(result) => {
                text += &format!(
                    "<result tool=\"{}\">\n{}\n</result>\n",
                    result.name,
                    result.text().trim_end_matches('\n')
                );
            }
            _ => {}
        }
    }
    text
}

/// C88: requests of a thousand turns stay inside the window and are valid. They contain the first
/// request, the names of the files that were read and edited, and the last turns unchanged. A
/// summary is requested with exactly the messages that it replaces, and each is counted. The
/// session is resumed half-way.
#[tokio::test(start_paused = true)]
async fn a_thousand_turns_stay_inside_the_window() {
    let info =
        ModelInfo::new("test/worker").with_context_window(WINDOW_TOKENS).with_max_output(4000);
    let worker = Worker {
        info,
        requests: Arc::default(),
        largest: Arc::default(),
        refused: Arc::default(),
        replies: Arc::default(),
    };
    let agent = GenericAgent::builder(worker.clone(), PiPattern)
        .system("You work on a program.")
        .tools([tool("read_file"), tool("edit_file")])
        .compaction(SummaryCompaction::new())
        .build()
        .unwrap();
    let memory = InMemory::new();
    for half in [0..PROMPTS / 2, PROMPTS / 2..PROMPTS] {
        let (handle, _) = agent.run(RunContext::new().memory(memory.clone())).await.unwrap();
        for n in half {
            let prompt = if n == 0 { FIRST.to_owned() } else { format!("Prompt {n}.") };
            let outcome = handle.prompt(prompt).await.unwrap();
            assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
        }
    }
    assert_eq!(
        *worker.refused.lock().unwrap(),
        Vec::<String>::new(),
        "every request is valid and inside the window"
    );
    let entries = memory.entries();
    check_log(&entries).unwrap();
    let history = SessionLog::of(&entries).messages();
    let all = turns(&history);
    let requests = worker.requests.lock().unwrap().clone();
    let (summaries, requests): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_summary);
    assert_eq!((all.len(), requests.len()), (PROMPTS * REPLIES, PROMPTS * REPLIES));

    let at = |id: MessageId| history.iter().position(|m| m.id == id);
    let mut touched = BTreeSet::<String>::new();
    for (reply, request) in requests.iter().enumerate() {
        assert_eq!(request.messages[0].text(), FIRST, "reply {reply}");
        let calls =
            request.messages.iter().filter_map(|m| m.as_assistant()).flat_map(|m| m.calls());
        let text: String = calls
            .map(|call| &*call.arguments)
            .chain([&*request.messages[1.min(reply)].text()])
            .collect();
        for file in &touched {
            assert!(text.contains(file.as_str()), "reply {reply}: {file} is missing");
        }
        touched.extend(files(reply).into_iter().map(|(_, file)| file));
        let ids: Vec<_> = request.messages.iter().map(|m| m.id).collect();
        let last: Vec<_> =
            all[reply.saturating_sub(3)..reply].concat().iter().map(|m| m.id).collect();
        let end = if at(*ids.last().unwrap()).unwrap() == 0 { 1 } else { ids.len() };
        let tail: Vec<_> = ids[..end].iter().copied().filter(|id| last.contains(id)).collect();
        assert_eq!(tail, last, "reply {reply}: the last three turns are unchanged");
    }
    assert!(touched.len() > FILES * 3 / 4, "{touched:?}");

    let detached =
        entries.iter().filter(|entry| matches!(entry, LogEntry::Detached { .. })).count();
    let mut stand_in = None::<Arc<Message>>;
    let mut covered = 1;
    let mut count = 0;
    for entry in &entries {
        let LogEntry::Compacted { first, last, message, summary, .. } = entry else {
            continue;
        };
        assert!(summary.is_some(), "{entry:?}");
        assert_eq!(*first, stand_in.as_ref().map_or(history[1].id, |m| m.id));
        let end = at(*last).unwrap() + 1;
        let replaced: Vec<_> = stand_in.iter().chain(&history[covered..end]).cloned().collect();
        let asked = summaries[count].messages[0].text();
        let given = asked
            .strip_prefix("<conversation>\n")
            .and_then(|text| text.split_once("</conversation>\n"))
            .unwrap()
            .0;
        assert_eq!(given, transcript(&replaced), "summary {count}");
        stand_in = Some(message.clone());
        covered = end;
        count += 1;
    }
    assert_eq!(
        (summaries.len(), detached),
        (count, count),
        "each summary is one request, and is counted"
    );
    assert!((10..200).contains(&count), "{count} summaries");
    let largest = worker.largest.load(Ordering::Relaxed);
    assert!(largest > WINDOW_TOKENS / 2, "the window is used: {largest}");
    println!("{count} summaries, the largest request has {largest} tokens");
}
