//! Agents with patterns of the library are recorded in a cassette, and replayed without models and
//! tools. `ReAct` and `Orchestrate` are recorded beside their other tests.

use loopwright_core::session::Profile;
use loopwright_core::testing::Script;
use loopwright_patterns::{
    Clarify, Graph, Handoff, Next, PiPattern, PlanExecute, PlanFirst, Reflect,
};
use serde_json::{Value, json};

use crate::cassettes::assert_is_recorded;

fn value(value: Value) -> Script {
    Script::text(&value.to_string())
}

fn call(tool: &str, arguments: Value) -> Script {
    Script::calls([("c", tool, arguments)])
}

/// C177: A plan, its question and its execution are recorded.
#[tokio::test(start_paused = true)]
async fn a_plan_that_is_accepted_is_recorded() {
    let replies = [Script::text("1. Look."), call("look", json!({})), Script::text("Seen.")];
    assert_is_recorded(|| PlanFirst::new(PiPattern), replies, &["Look, please."]).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn questions_are_recorded() {
    let asks = value(json!({ "question": "Which city?", "options": ["Oslo", "Bergen"] }));
    let clear = value(json!({ "question": null, "options": [] }));
    let replies = [asks, clear, Script::text("Rain.")];
    assert_is_recorded(|| Clarify::new(PiPattern), replies, &["The weather?"]).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn roles_are_recorded() {
    let desk = || {
        Handoff::new(PiPattern).role("desk", "First.", Profile::new().system("Desk.")).role(
            "billing",
            "Invoices.",
            Profile::new().system("Billing."),
        )
    };
    let replies = [
        call("hand_over", json!({ "to": "billing" })),
        call("pay", json!({})),
        Script::text("Paid."),
    ];
    assert_is_recorded(desk, replies, &["My invoice?"]).await;
}

/// C177: Checkpoints and the return to one are recorded.
#[tokio::test(start_paused = true)]
async fn graphs_are_recorded() {
    let graph = || {
        Graph::<u32>::new("try").checkpoint("try").pattern("try", PiPattern).edge(
            "try",
            |_, tries| {
                *tries += 1;
                if *tries == 1 { Next::Back("try") } else { Next::End }
            },
        )
    };
    let replies = [call("look", json!({})), Script::text("No."), Script::text("Yes.")];
    assert_is_recorded(graph, replies, &["Try it."]).await;
}

/// C177: Patterns around patterns are recorded.
#[tokio::test(start_paused = true)]
async fn wrappers_are_recorded() {
    let plan = |steps: &[&str]| value(json!({ "steps": steps }));
    let verdict = |is_good: bool| value(json!({ "is_good": is_good, "reason": "No price." }));
    let replies = [
        plan(&["Look it up."]),
        call("look", json!({})),
        Script::text("It is a lamp."),
        plan(&[]),
        Script::text("A lamp."),
        verdict(false),
        Script::text("A lamp, 30 €."),
        verdict(true),
    ];
    let pattern = || Reflect::new("It has a price.", PlanExecute::new(PiPattern));
    assert_is_recorded(pattern, replies, &["What is it?"]).await;
}
