//! Results of calls.

use loopwright_core::event::{ExternalAction, IncompleteReply, RunOutcome, RunStatus};
use loopwright_core::message::{Content, ResultStatus, ToolResult};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

/// Returns the result of a call that failed for this reason.
pub(super) fn failed(why: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// Returns the result of a call of an agent: the reply as text, and the whole outcome as structured
/// content.
pub(super) fn of_agent(session: &str, outcome: &RunOutcome) -> CallToolResult {
    let error = outcome.error.as_deref().map(str::to_owned);
    let error = error.or_else(|| outcome.incomplete.as_ref().map(IncompleteReply::to_string));
    let error = error.or_else(|| outcome.limit.map(|limit| format!("{limit} is reached")));
    let text = Some(&outcome.text).filter(|text| !text.is_empty());
    let mut content: Vec<_> = text.into_iter().map(ContentBlock::text).collect();
    let status = status(outcome.end);
    let why = error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    content.push(ContentBlock::text(format!("(session {session}, {status}{why})")));
    let mut structured = json!({
        "session": session,
        "status": status,
        "text": outcome.text,
        "usage": outcome.usage,
        "cost": outcome.cost,
    });
    if let Some(error) = error {
        structured["error"] = error.into();
    }
    if let Some(value) = outcome.value.as_deref() {
        structured["value"] = value.clone();
    }
    use RunStatus::*;
    let is_error = !matches!(outcome.end, Done | Sleeping | Incomplete);
    with_structure(content, structured, is_error)
}

/// Returns the result of a call of an agent with pending actions that the client's user was not
/// asked about or has not decided. `how` has a sentence per action that tells how to decide it.
pub(super) fn awaiting(
    session: &str,
    pending: &[ExternalAction],
    how: &[String],
    problem: Option<&str>,
) -> CallToolResult {
    let mut text = problem.map(|why| format!("{why}\n")).unwrap_or_default();
    text += &format!("Not finished: session {session} waits for the user's decision.\n");
    for (action, how) in pending.iter().zip(how) {
        let question = action.question().map(|question| question.question);
        let call = || format!("{} {}", action.name, action.arguments);
        text += &format!("- {}: {how}\n", question.unwrap_or_else(call));
    }
    text += &format!(
        "After that, call this tool with the session `{session}` and an empty message for the \
         answer."
    );
    let status = status(RunStatus::AwaitingAction);
    let structured =
        json!({ "session": session, "status": status, "text": text, "pending": pending });
    with_structure(vec![ContentBlock::text(text)], structured, false)
}

/// Returns the JSON Schema of the structured content of a call of an agent.
pub(super) fn schema() -> Value {
    let statuses =
        ["done", "awaiting_action", "sleeping", "aborted", "error", "limit", "incomplete"];
    let about = |text: &str| json!({ "type": "string", "description": text });
    json!({
        "type": "object",
        "properties": {
            "session": about("The session, which a later call continues."),
            "status": { "type": "string", "enum": statuses },
            "text": about("The reply."),
            "value": { "description": "The reply as a value, if the agent has an output schema." },
            "error": about("Why the reply is missing or incomplete."),
            "usage": { "type": "object", "description": "The numbers of tokens." },
            "cost": { "type": "number", "description": "US dollars, as far as prices are known." },
            "pending": { "type": "array", "description": "What waits for a decision." },
        },
        "required": ["session", "status", "text"],
    })
}

/// Returns the result of a call of a tool.
pub(super) fn of_tool(result: &ToolResult) -> CallToolResult {
    let content = result.content.iter().map(block).collect();
    match result.status {
        ResultStatus::Ok => CallToolResult::success(content),
        _ => CallToolResult::error(content),
    }
}

fn block(content: &Content) -> ContentBlock {
    match content {
        Content::Image { media_type, data } if media_type.starts_with("image/") => {
            ContentBlock::image(data.clone(), media_type.clone())
        }
        Content::Image { media_type, data } => {
            let file = ResourceContents::blob(data.clone(), "file:///result");
            ContentBlock::resource(file.with_mime_type(media_type.clone()))
        }
        Content::Text { text } => ContentBlock::text(text.clone()),
        other => ContentBlock::text(json!(other).to_string()),
    }
}

fn with_structure(content: Vec<ContentBlock>, structured: Value, is_error: bool) -> CallToolResult {
    let mut result = match is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = Some(structured);
    result
}

/// Returns the name of a status in JSON.
fn status(status: RunStatus) -> String {
    let name = serde_json::to_value(status).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(end: &str) -> RunOutcome {
        let outcome = json!({
            "end": end, "error": "no credit", "usage": { "input": 3 }, "cost": 0.5, "text": "Half",
        });
        serde_json::from_value(outcome).unwrap()
    }

    /// Returns whether the structured content matches its schema.
    fn fits(result: &CallToolResult) -> bool {
        let (schema, content) = (schema(), result.structured_content.clone().unwrap());
        let has = |name: &Value| content.get(name.as_str().unwrap()).is_some();
        let statuses = schema["properties"]["status"]["enum"].as_array().unwrap();
        schema["required"].as_array().unwrap().iter().all(has)
            && statuses.contains(&content["status"])
            && content
                .as_object()
                .unwrap()
                .keys()
                .all(|name| schema["properties"].get(name).is_some())
    }

    #[test]
    fn a_result_says_how_the_run_has_ended() {
        for (end, is_error) in [
            ("done", false),
            ("incomplete", false),
            ("sleeping", false),
            ("aborted", true),
            ("error", true),
            ("limit", true),
        ] {
            let result = of_agent("s", &outcome(end));
            assert_eq!(result.is_error, Some(is_error), "{end}");
            assert!(fits(&result), "{result:?}");
            let content = serde_json::to_value(&result.content).unwrap();
            assert_eq!(content[0]["text"], "Half");
            assert_eq!(content[1]["text"], format!("(session s, {end}: no credit)"));
        }
        let action = ExternalAction::new("c", "pay", json!({ "amount": 7 }), "d");
        let result = awaiting("s", &[action], &["run X".into()], Some("Not JSON."));
        assert!(fits(&result) && result.is_error == Some(false), "{result:?}");
        let content = serde_json::to_value(&result.content).unwrap();
        let text = content[0]["text"].as_str().unwrap();
        assert!(text.starts_with("Not JSON.\n") && text.contains("- pay {\"amount\":7}: run X\n"));
    }

    #[test]
    fn the_content_of_a_tool_keeps_its_type() {
        let content = vec![
            Content::text("x"),
            Content::image("image/png", "AA=="),
            Content::image("application/pdf", "BB=="),
        ];
        let result = of_tool(&ToolResult::new("c", "t", ResultStatus::Ok, content));
        let blocks = serde_json::to_value(&result.content).unwrap();
        assert_eq!(blocks[0]["text"], "x");
        assert_eq!((&blocks[1]["type"], &blocks[1]["data"]), (&json!("image"), &json!("AA==")));
        assert_eq!(blocks[2]["resource"]["mimeType"], "application/pdf");
        let denied = ToolResult::new("c", "t", ResultStatus::Denied, vec![Content::text("no")]);
        assert_eq!(of_tool(&denied).is_error, Some(true));
    }
}
