//! Patterns of agents with an answer at the limit, and with a todo list, in the suite.

use loopwright_core::limits::{Budget, Limits, LoopGuard, WrapUp};
use loopwright_core::model::{ChatRequest, ToolChoice};
use loopwright_core::testing::{Script, TestTool};
use loopwright_core::tool::Todo;
use loopwright_patterns::conformance::Scenario;
use loopwright_patterns::{GenericPattern, PiPattern, Reflect};
use serde_json::json;

use crate::kit::assert_conforms;
use crate::values::value;

/// Looks as long as it may.
fn look(request: &ChatRequest) -> Script {
    match (&request.output, &request.tool_choice) {
        (Some(_), _) => Script::text(&value(request).to_string()),
        (None, ToolChoice::None) => Script::text("Half of it."),
        _ => Script::calls([("a", "look", json!({}))]),
    }
}

/// C537: A pattern whose run answers at its limit conforms: wherever an abort cuts the log, or a
/// crash if no budget is used up, the answer is asked for once, and the next request gets its own.
#[tokio::test(start_paused = true)]
async fn a_pattern_of_an_agent_that_wraps_up_conforms() {
    let scenario = |name, limits: Limits| {
        let limits = limits.wrap_up(WrapUp::new());
        Scenario::new(name, [])
            .reply_with(look)
            .agent(move |agent, _| agent.tool(TestTool::new("look")).limits(limits.clone()))
            .answers_at_limit()
            .request("Look.")
    };
    let turns = |turns| Limits::from(Budget::default().turns(turns));
    let guarded = || Limits::default().loop_guard(LoopGuard::new());
    let scenarios = || {
        vec![
            scenario("turns", turns(5)),
            scenario("two requests", turns(4)).request("Look again."),
            scenario("repeated calls", guarded()),
            scenario("repeated calls twice", guarded()).request("Look again."),
        ]
    };
    assert_conforms(|| PiPattern, scenarios()).await;
    assert_conforms(|| GenericPattern, scenarios()).await;
    assert_conforms(|| Reflect::new("It must be good.", PiPattern), scenarios()).await;
}

/// Returns a reply that writes a list whose items have these statuses.
fn write(id: &str, statuses: [&str; 2]) -> Script {
    let [read, fix] = statuses;
    let todos = json!([
        { "content": "Read", "status": read },
        { "content": "Fix", "status": fix },
    ]);
    Script::calls([(id, "write_todos", json!({ "todos": todos }))])
}

/// C538: A pattern whose model keeps a todo list conforms: wherever a crash or an abort cuts the
/// log, the calls and their lists are the same.
#[tokio::test(start_paused = true)]
async fn a_pattern_of_an_agent_with_a_todo_list_conforms() {
    let first = || [write("1", ["in_progress", "pending"]), write("2", ["done", "pending"])];
    let then = || [write("3", ["completed", "in_progress"]), Script::text("Read.")];
    let last = || [write("4", ["completed", "completed"]), Script::text("Fixed.")];
    let scenario = |name, replies: Vec<Script>| {
        Scenario::new(name, replies).agent(|agent, _| agent.tool(Todo::new())).request("Work.")
    };
    let replies = || first().into_iter().chain(then()).chain(last()).collect::<Vec<_>>();
    let scenarios = || {
        vec![
            scenario("one request", first().into_iter().chain(then()).collect()),
            scenario("two requests", replies()).request("Go on."),
            scenario("a follow-up", replies()).follow_up("And fix it."),
        ]
    };
    assert_conforms(|| PiPattern, scenarios()).await;
    assert_conforms(|| GenericPattern, scenarios()).await;
}
