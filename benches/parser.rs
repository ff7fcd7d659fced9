//! The speed of reading replies and writing requests: `cargo bench --bench parser`, or
//! `cargo bench --bench parser -- --quick`.
//!
//! The baseline for replies is `eventsource-stream` with a `serde_json::Value` per event. Both read
//! the recordings of `$LOOPWRIGHT_SHARED/wire` (by default `shared` beside the repository) in the
//! same chunks, alternately: as packets of 1 to 4 KiB, and event by event. Ours produces model
//! events, the baseline only JSON values.
//!
//! The baseline for requests is a `serde::Serialize` struct that borrows from the same conversation
//! and is written with `serde_json::to_vec`. Both write the 40 requests of one session. Each
//! request has two messages more than the one before. Ours encodes each message once and then
//! copies its bytes, which is why the encoders join bytes instead of deriving `Serialize`.
//!
//! The output is one table. The exit code is 1 if replies are read less than three times as fast
//! (twice with `--quick`, for busy machines). The allocator is the default one, as in a library
//! user's program. A faster allocator helps the baseline more, because ours rarely allocates. Words
//! after `--` select wire formats by folder name, or `encode`. To run ours alone, under a profiler:
//! `parser ours FORMAT TIMES`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures::{FutureExt, StreamExt};
use loopwright_core::Message;
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, MessageId, MessageKind, ResultStatus, ToolCall,
    ToolResult, UserMessage,
};
use loopwright_core::model::ChatRequest;
use loopwright_core::tool::{ToolList, ToolSpec};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::{self, ChatCompletions};
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Endpoint, ReplyBody, WireFormat};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::{Value, json};

/// A wire format: the name of its folder, and our reader of its replies.
type Format = (&'static str, fn(&[Chunks]));

const FORMATS: [Format; 4] = [
    ("openai-chat", ours::<ChatCompletions>),
    ("openai-responses", ours::<Responses>),
    ("anthropic", ours::<Messages>),
    ("gemini", ours::<GenerateContent>),
];

/// A body, split into chunks.
type Chunks = Vec<Vec<u8>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name, times] = args.as_slice()
        && word == "ours"
    {
        return alone(name, times.parse().unwrap());
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let chosen: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let (rounds, round, least) = if quick { (9, 10, 2.0) } else { (41, 40, 3.0) };
    let mut slow = Vec::new();
    println!(
        "| medians of {rounds} rounds | MB/s | µs per event or request | baseline: MB/s | \
         µs per event or request | times as fast |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, ours) in
        FORMATS.iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|one| one == name))
    {
        let bodies = recordings(name);
        for (how, split) in [("packets", packets as fn(&[u8]) -> Chunks), ("events", events)] {
            let bodies: Vec<Chunks> = bodies.iter().map(|body| split(body)).collect();
            let work = (&|| ours(&bodies) as _, &|| assert!(theirs(&bodies) > 0) as _);
            let times = measure(work.0, work.1, rounds, Duration::from_millis(round));
            let size: usize = bodies.iter().flatten().map(Vec::len).sum();
            let events_read = theirs(&bodies);
            let speed = |time: f64| {
                format!("{:.0} | {:.2}", size as f64 / time / 1e6, time * 1e6 / events_read as f64)
            };
            println!(
                "| {name}, {how} | {} | {} | {:.2} |",
                speed(times.ours),
                speed(times.theirs),
                times.ratio
            );
            if times.ratio < least {
                slow.push(format!(
                    "{name}, {how}: {:.2} times as fast, less than {least}",
                    times.ratio
                ));
            }
        }
    }
    if chosen.iter().any(|one| *one == "encode") {
        let (request, settings) = (conversation(), openai_chat::Settings::new("gpt-4o"));
        let encode = |request: &ChatRequest| openai_chat::encode(request, &settings);
        let serialize = |request: &ChatRequest| serde_json::to_vec(&Body::of(request)).unwrap();
        let parsed: Value = serde_json::from_slice(&encode(&request)).unwrap();
        assert_eq!(parsed, serde_json::to_value(Body::of(&request)).unwrap(), "not the same body");
        let size = session(&request, &encode);
        let ours = || assert_eq!(session(&request, &encode), size);
        let theirs = || assert!(session(&request, &serialize) > 0);
        let times = measure(&ours, &theirs, rounds, Duration::from_millis(round));
        let requests = request.messages.len() / 2;
        let speed = |time: f64| {
            format!("{:.0} | {:.2}", size as f64 / time / 1e6, time * 1e6 / requests as f64)
        };
        println!(
            "| openai-chat, encode {requests} requests | {} | {} | {:.2} |",
            speed(times.ours),
            speed(times.theirs),
            times.ratio
        );
    }
    slow.iter().for_each(|line| println!("{line}"));
    if slow.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Encodes the requests of a session that ends with `last`. Returns the total number of bytes.
fn session(last: &ChatRequest, encode: &dyn Fn(&ChatRequest) -> Vec<u8>) -> usize {
    // Copies, none of which has been encoded yet.
    let copy = |message: &Arc<Message>| Arc::new(Message::new(message.id, message.body.clone()));
    let messages: Vec<Arc<Message>> = last.messages.iter().map(copy).collect();
    let mut request = last.clone();
    let sizes = (1..messages.len()).step_by(2).map(|length| {
        request.messages = Arc::new(messages[..length].to_vec());
        black_box(encode(black_box(&request))).len()
    });
    sizes.sum()
}

/// Runs ours alone, without timing.
fn alone(format: &str, times: usize) -> ExitCode {
    let bodies: Vec<Chunks> = recordings(format).iter().map(|body| events(body)).collect();
    let (_, ours) = FORMATS.iter().find(|(name, _)| *name == format).unwrap();
    (0..times).for_each(|_| ours(&bodies));
    ExitCode::SUCCESS
}

/// Decodes all bodies like a model.
fn ours<F: WireFormat>(bodies: &[Chunks]) {
    let endpoint = Arc::new(Endpoint::default());
    for chunks in bodies {
        let (mut body, mut out) = (ReplyBody::new(F::decoder(endpoint.clone())), VecDeque::new());
        for chunk in chunks {
            body.push(black_box(chunk), &mut out);
            while let Some(event) = out.pop_front() {
                drop(black_box(event));
            }
        }
        body.finish(&mut out);
        black_box(out);
    }
}

/// Parses all bodies with common crates. Returns the number of events.
fn theirs(bodies: &[Chunks]) -> usize {
    let mut events_read = 0;
    for chunks in bodies {
        let chunks = chunks.iter().map(|chunk| Ok::<_, Infallible>(black_box(chunk)));
        let mut events = futures::stream::iter(chunks).eventsource();
        while let Some(Ok(event)) = events.next().now_or_never().flatten() {
            events_read += 1;
            drop(black_box(serde_json::from_str::<Value>(&event.data)));
        }
    }
    events_read
}

/// Medians, in seconds per pass over all bodies.
struct Times {
    ours: f64,
    theirs: f64,
    /// The median of the ratios within a round, which other load affects least.
    ratio: f64,
}

/// Measures both alternately, each for about half of `round`, after one unmeasured round.
fn measure(ours: &dyn Fn(), theirs: &dyn Fn(), rounds: usize, round: Duration) -> Times {
    let time = |work: &dyn Fn(), times: u32| {
        let start = cpu();
        (0..times).for_each(|_| work());
        (cpu() - start).as_secs_f64() / f64::from(times)
    };
    let times = |work: &dyn Fn()| ((round.as_secs_f64() / 2.0 / time(work, 3)) as u32).max(1);
    let (n, m) = (times(ours), times(theirs));
    let mut all: Vec<(f64, f64)> = (0..=rounds).map(|_| (time(ours, n), time(theirs, m))).collect();
    all.remove(0);
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Times { ours: median(|t| t.0), theirs: median(|t| t.1), ratio: median(|t| t.1 / t.0) }
}

/// Returns the CPU time of this thread, which other load hardly affects.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the recorded bodies of a wire format.
fn recordings(format: &str) -> Vec<Vec<u8>> {
    let shared =
        std::env::var_os("LOOPWRIGHT_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(shared).join("wire").join(format);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sse"));
    paths.sort();
    assert!(!paths.is_empty(), "there is no recording in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Returns chunks of 1 to 4 KiB. The lengths are the same in each run.
fn packets(mut body: &[u8]) -> Chunks {
    let mut chunks = Vec::new();
    for length in (0..).map(|n| 1024 + n * 1021 % 3073) {
        if body.is_empty() {
            break;
        }
        let (chunk, rest) = body.split_at(length.min(body.len()));
        chunks.push(chunk.to_vec());
        body = rest;
    }
    chunks
}

/// Returns a chunk for each event, including its blank line.
fn events(body: &[u8]) -> Chunks {
    let mut chunks = vec![Vec::new()];
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        chunks.last_mut().unwrap().extend_from_slice(line);
        if line.trim_ascii().is_empty() {
            chunks.push(Vec::new());
        }
    }
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

/// Returns a conversation of 20 rounds with ten tools. A round is a question, a call, its result
/// and an answer.
fn conversation() -> ChatRequest {
    let mut messages: Vec<MessageKind> = Vec::new();
    for round in 0..20 {
        let id = format!("call_{round}");
        let call = ToolCall::new(
            id.as_str(),
            "read_file",
            format!(r#"{{"path":"src/module_{round}.rs"}}"#),
        );
        let result = ToolResult::new(
            id.as_str(),
            "read_file",
            ResultStatus::Ok,
            vec![Content::text("let value = \"one line of code\";\n".repeat(40))],
        );
        let reply = |part| AssistantMessage::new(vec![part]);
        let text = "It defines a value and returns it to its caller. ".repeat(4);
        messages.push(UserMessage::from(format!("What does module {round} do?")).into());
        messages.push(reply(ContentPart::ToolCall(call)).into());
        messages.push(result.into());
        messages.push(reply(ContentPart::Text { text, signature: None }).into());
    }
    let tool = |number| {
        let properties = json!({"path": {"type": "string"}, "limit": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": properties, "required": ["path"]});
        let name = format!("tool_{number}");
        Arc::new(ToolSpec::with_schema(name, "Reads a file of the workspace.", schema))
    };
    let messages =
        (1..).zip(messages).map(|(id, body)| Arc::new(Message::new(MessageId(id), body)));
    let mut request = ChatRequest::default();
    request.messages = Arc::new(messages.collect());
    request.system = "You are a coding agent.".into();
    request.tools = Arc::new(ToolList::new((0..10).map(tool).collect()));
    request
}

/// The baseline: the same body as a `Serialize` struct.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    tools: Vec<Tool<'a>>,
    stream_options: StreamOptions,
    stream: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum ChatMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'a str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Body<'a> {
    fn of(request: &'a ChatRequest) -> Self {
        let mut messages = vec![ChatMessage::System { content: &request.system }];
        messages.extend(request.messages.iter().map(|message| ChatMessage::of(message)));
        let tools = request.tools.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.schema,
            },
        });
        Body {
            model: "gpt-4o",
            messages,
            tools: tools.collect(),
            stream_options: StreamOptions { include_usage: true },
            stream: true,
        }
    }
}

impl<'a> ChatMessage<'a> {
    fn of(message: &'a Message) -> Self {
        if let Some(result) = message.as_tool_result() {
            return ChatMessage::Tool { tool_call_id: &result.call, content: result.text() };
        }
        let Some(reply) = message.as_assistant() else {
            return ChatMessage::User { content: message.text() };
        };
        let calls = reply.calls().map(|call| Call {
            id: &call.id,
            r#type: "function",
            function: CalledFunction { name: &call.name, arguments: &call.arguments },
        });
        let text = reply.text();
        let content = Some(text).filter(|text| !text.is_empty());
        ChatMessage::Assistant { content, tool_calls: calls.collect() }
    }
}
