//! The tokens of five tasks of 20 calls, against a loop that sees every result.

use std::fmt::Write as _;

use loopwright_core::message::MessageKind;
use loopwright_core::testing::{Harness, Script};
use loopwright_core::tool::{Approval, Tool};
use loopwright_core::{AgentBuilder, BehaviorPattern, ToolError, tool_fn};
use loopwright_patterns::PiPattern;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kit::{Order, batches, code_mode, script};

/// A task: the calls of a model that sees every result, in batches, and a script for them.
struct Task {
    name: &'static str,
    batches: Vec<Vec<(&'static str, Value)>>,
    script: &'static str,
    answer: &'static str,
}

fn tasks() -> [Task; 5] {
    let each = |tool, argument: fn(u64) -> Value, from, to| {
        (from..to).map(|n| (tool, argument(n))).collect::<Vec<_>>()
    };
    let alone = |calls: Vec<(&'static str, Value)>| calls.into_iter().map(|c| vec![c]).collect();
    let stale = [1, 3, 4, 5, 6, 7, 8, 9, 11];
    let stale = stale.map(|id| ("close_ticket", json!({ "id": id }))).into();
    let tickets = each("get_ticket", |n| json!({ "id": n }), 1, 12);
    [
        Task {
            name: "the totals of 20 orders by customer",
            batches: vec![each("get_order", |n| json!({ "number": n }), 1, 21)],
            script: ORDERS,
            answer: "{'c2': 910, 'c1': 770, 'c0': 630}",
        },
        Task {
            name: "the open points in 20 files",
            batches: vec![each("read_file", |n| json!({ "path": format!("src/{n}.rs") }), 0, 20)],
            script: FILES,
            answer: "('src/4.rs', 4)",
        },
        Task {
            name: "the slowest of the events on 20 pages",
            batches: alone(each("list_events", |n| json!({ "page": n }), 0, 20)),
            script: PAGES,
            answer: "{'id': 391, 'ms': 495}",
        },
        Task {
            name: "the 20 managers above an employee",
            batches: alone(each("get_employee", |n| json!({ "id": 20 - n }), 0, 20)),
            script: CHAIN,
            answer: "Employee 1",
        },
        Task {
            name: "9 of 11 tickets are stale, and closed",
            batches: vec![tickets, stale],
            script: TICKETS,
            answer: "[1, 3, 4, 5, 6, 7, 8, 9, 11]",
        },
    ]
}

const ORDERS: &str = r#"
import asyncio, json
totals = {}
for text in await asyncio.gather(*[get_order(number=n) for n in range(1, 21)]):
    order = json.loads(text)
    totals[order["customer"]] = totals.get(order["customer"], 0) + order["total"]
dict(sorted(totals.items(), key=lambda item: -item[1]))
"#;

const FILES: &str = r#"
import asyncio
paths = [f"src/{n}.rs" for n in range(20)]
texts = await asyncio.gather(*[read_file(path=path) for path in paths])
max([(path, text.count("TODO")) for path, text in zip(paths, texts)], key=lambda file: file[1])
"#;

const PAGES: &str = r#"
import json
slowest, page = None, 0
while page is not None:
    result = json.loads(await list_events(page=page))
    for event in result["events"]:
        if slowest is None or event["ms"] > slowest["ms"]:
            slowest = event
    page = result["next"]
slowest
"#;

const CHAIN: &str = r#"
import json
id = 20
while id:
    employee = json.loads(await get_employee(id=id))
    id = employee["manager"]
employee["name"]
"#;

const TICKETS: &str = r#"
import asyncio, json
tickets = await asyncio.gather(*[get_ticket(id=n) for n in range(1, 12)])
stale = [t["id"] for t in map(json.loads, tickets) if t["days"] > 30]
await asyncio.gather(*[close_ticket(id=n) for n in stale])
stale
"#;

#[derive(Deserialize, JsonSchema)]
struct File {
    /// The path in the repository.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    /// The number of the page, from 0.
    page: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Id {
    /// The number.
    id: u64,
}

/// Gives the agent tools whose results are as long as real ones.
fn with_tools(agent: AgentBuilder) -> AgentBuilder {
    let order = |order: Order| {
        let n = order.number;
        let items: Vec<_> = (0..3).map(|i| json!({ "sku": n * 7 + i, "count": i + 1 })).collect();
        let address = "12 Long Street, 10115 Berlin";
        let customer = format!("c{}", n % 3);
        json!({ "number": n, "customer": customer, "total": n * 10 + n % 3 * 10, "items": items,
            "address": address, "status": "sent", "ordered": "2026-11-02T09:30:00Z" })
    };
    let file = |file: File| {
        let n: usize =
            file.path.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
        let line = |i: usize| match i.is_multiple_of(12) && i / 12 < n % 5 {
            true => format!("    // TODO: handle the case {i}\n"),
            false => format!("    let value_{i} = compute(input, {i})?;\n"),
        };
        (0..60).map(line).collect::<String>()
    };
    let events = |page: Page| {
        let event =
            |i: u64| json!({ "id": page.page * 20 + i, "ms": (page.page * 20 + i) * 37 % 499 });
        let next = (page.page < 19).then_some(page.page + 1);
        json!({ "events": (0..20).map(event).collect::<Vec<_>>(), "next": next })
    };
    let employee = |id: Id| {
        json!({ "id": id.id, "name": format!("Employee {}", id.id), "manager": id.id - 1,
            "office": "Berlin", "team": "Payments", "since": "2019-04-01" })
    };
    let ticket = |id: Id| {
        let days = if id.id == 2 || id.id == 10 { 3 } else { 40 + id.id };
        let text = "The export stops after the first page. ".repeat(8);
        json!({ "id": id.id, "days": days, "text": text, "author": "somebody@example.com" })
    };
    agent
        .tool(tool("get_order", "Returns an order as JSON.", move |args| order(args).to_string()))
        .tool(tool("read_file", "Returns the text of a file.", file))
        .tool(tool("list_events", EVENTS, move |args| events(args).to_string()))
        .tool(tool("get_employee", EMPLOYEE, move |args| employee(args).to_string()))
        .tool(tool("get_ticket", "Returns a ticket as JSON.", move |args| ticket(args).to_string()))
        .tool(tool("close_ticket", "Closes a ticket.", |id: Id| format!("closed {}", id.id)))
}

const EVENTS: &str = "Returns a page of events as JSON, with the number of the next page.";
const EMPLOYEE: &str = "Returns an employee as JSON, with the id of the manager.";

fn tool<A: DeserializeOwned + JsonSchema + Send + 'static>(
    name: &str,
    about: &str,
    result: impl Fn(A) -> String + Send + Sync + 'static,
) -> impl Tool {
    tool_fn(name, about, move |args: A, _cx| std::future::ready(Ok::<_, ToolError>(result(args))))
        .approval(Approval::Never)
}

/// The requests and the tokens of a task.
struct Used {
    requests: usize,
    input: u64,
    output: u64,
}

impl Used {
    fn total(&self) -> u64 {
        self.input + self.output
    }
}

/// Runs a task with these replies. Returns what it used, the last message before the answer, and
/// the number of calls of scripts.
async fn run(
    pattern: impl BehaviorPattern + 'static,
    replies: Vec<Script>,
    answer: &str,
) -> (Used, String, usize) {
    let replies = replies.into_iter().chain([Script::text(answer)]);
    let options = |agent: AgentBuilder| with_tools(agent.system("You are a helpful assistant."));
    let harness = Harness::new(pattern, replies, options).await;
    assert_eq!(harness.handle.prompt("Please do the task.").await.unwrap().text, answer);
    let requests = harness.model.requests();
    let mut used = Used { requests: requests.len(), input: 0, output: answer.len() as u64 / 3 };
    for request in &requests {
        let size = |spec: &loopwright_core::tool::ToolSpec| {
            spec.name.len() + spec.description.len() + spec.schema.to_string().len()
        };
        let tools: usize = request.tools.iter().map(|spec| size(spec)).sum();
        used.input += (request.system.len() + tools) as u64 / 3;
        used.input += request.messages.iter().map(|message| message.tokens()).sum::<u64>();
    }
    let last = requests.last().unwrap();
    let replies = last.messages.iter().filter(|m| matches!(m.body, MessageKind::Assistant(_)));
    used.output += replies.map(|message| message.tokens()).sum::<u64>();
    let calls = batches(&harness.memory.entries()).iter().map(Vec::len).sum();
    (used, last.messages.last().unwrap().text(), calls)
}

/// Returns the replies of a model that makes these calls.
fn replies(batches: &[Vec<(&'static str, Value)>]) -> Vec<Script> {
    let ids: Vec<String> = (0..20).map(|n| format!("call_{n}")).collect();
    let reply = |calls: &Vec<(&'static str, Value)>| {
        Script::calls(calls.iter().zip(&ids).map(|((tool, a), id)| (&**id, *tool, a.clone())))
    };
    batches.iter().map(reply).collect()
}

/// C550: Five tasks of 20 calls take fewer tokens with scripts, by the estimate of compaction. The
/// table of the guide has the figures.
#[tokio::test]
async fn scripts_save_tokens() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/src/code-mode.md");
    let page = std::fs::read_to_string(page).unwrap_or_default();
    let mut rows = String::new();
    for Task { name, batches, script: code, answer } in tasks() {
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 20, "{name}");
        let single: Vec<_> = batches.iter().flatten().map(|call| vec![call.clone()]).collect();
        let (single, ..) = run(PiPattern, replies(&single), answer).await;
        let (together, ..) = run(PiPattern, replies(&batches), answer).await;
        let (scripts, output, calls) = run(code_mode(), vec![script(code)], answer).await;
        assert_eq!(output, format!("Output of the script:\n{answer}"), "{name}");
        assert_eq!(calls, 20, "{name}");
        assert!(scripts.total() < together.total(), "{name}");
        let cell = |used: &Used| format!("{} in {}", used.total(), used.requests);
        let saved = 100 - scripts.total() * 100 / together.total();
        let cells = [cell(&single), cell(&together), cell(&scripts)].join(" | ");
        writeln!(rows, "| {name} | {cells} | {saved} % |").unwrap();
    }
    assert!(page.contains(&rows), "the table of the guide must be:\n{rows}");
}
