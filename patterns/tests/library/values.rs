//! The values with which models of the tests answer. Each depends only on the request.

use loopwright_core::message::MessageKind;
use loopwright_core::model::ChatRequest;
use serde_json::{Value, json};

/// Returns the texts of the user's messages from the user's last own one on, which comes first.
fn texts(request: &ChatRequest) -> Vec<String> {
    let user = request.messages.iter().filter(|m| matches!(m.body, MessageKind::User(_)));
    let texts: Vec<String> = user.map(|message| message.text()).collect();
    let of_patterns = [
        "Now do this step",
        "Answer the request with",
        "The answer is not good",
        "The answer is not valid JSON",
        "Which ",
        "Judge ",
        "Is something unclear",
        "Carry out the plan",
        "Divide the request",
        "Is this goal reached",
        "The goal is not reached",
        "[The goal is not reached",
    ];
    let is_own = |text: &String| of_patterns.iter().any(|start| text.starts_with(start));
    let last = texts.iter().rposition(|text| !is_own(text)).unwrap_or_default();
    texts.get(last..).unwrap_or_default().to_vec()
}

/// Returns a value for the schema of the request.
pub(crate) fn value(request: &ChatRequest) -> Value {
    let schema = request.output.as_ref().map(|output| &output.schema["properties"]);
    let has = |name: &str| schema.is_some_and(|schema| schema.get(name).is_some());
    let texts = texts(request);
    let count = |start: &str| texts.iter().filter(|text| text.starts_with(start)).count();
    if has("is_good") {
        // The first answer is never good enough, a better one always is.
        json!({ "is_good": count("The answer is not good") > 0, "reason": "It is too short." })
    } else if has("reached") {
        json!({ "reached": count("The goal is not reached") > 0, "why": "It is too short." })
    } else if has("steps") {
        match count("Now do this step") {
            0 => json!({ "steps": [texts.first(), "tidy up"] }),
            1 => json!({ "steps": ["tidy up"] }),
            _ => json!({ "steps": [] }),
        }
    } else if has("question") {
        let since = request.messages.iter().rev().skip(1);
        let mut since = since.take_while(|m| !matches!(m.body, MessageKind::User(_)));
        let asked = since.any(|message| {
            message.as_tool_result().is_some_and(|result| *result.name == *"ask_user")
        });
        json!({ "question": (!asked).then_some("Which one?"), "options": ["a", "b"] })
    } else if has("tasks") {
        let tasks = ["look", "send"].map(|agent| json!({ "agent": agent, "task": "Do it." }));
        json!({ "tasks": tasks })
    } else if has("route") {
        json!({ "route": "billing" })
    } else if has("name") {
        json!({ "name": "Ada", "age": 36 })
    } else {
        json!({ "reasoning": "", "answer": "4" })
    }
}
