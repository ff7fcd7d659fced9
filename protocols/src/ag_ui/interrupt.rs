//! Interrupts: pending actions, and the decisions that resolve them.

use loopwright_core::event::{ActionResult, Decision, ExternalAction, Input, InputEvent, Provided};
use serde_json::{Value, json};

use crate::error::DecodeError;
use crate::json::Node;
use crate::question::{action_text, answer_schema};
use crate::time::rfc_3339;

/// The prefixes of an interrupt's id, for an approval and for other input. The digest of the action
/// and the call follow.
const APPROVAL: &str = "approval:";
const INPUT: &str = "input:";

/// Converts a pending action to an `Interrupt`.
pub(super) fn interrupt(action: &ExternalAction) -> Value {
    let (kind, reason) = match action.request {
        None => (APPROVAL, "tool_call"),
        Some(_) => (INPUT, "input_required"),
    };
    let mut interrupt = json!({
        "id": format!("{kind}{}:{}", action.digest, action.call),
        "reason": reason, "message": action_text(action), "toolCallId": action.call,
        "responseSchema": schema(action), "metadata": { "action": action },
    });
    if let Some(deadline) = action.terms.deadline {
        interrupt["expiresAt"] = rfc_3339(deadline).into();
    }
    interrupt
}

/// Returns the schema of the payload that resolves an action.
fn schema(action: &ExternalAction) -> Value {
    match (&action.request, action.question()) {
        (_, Some(question)) => answer_schema(&question),
        (Some(_), None) => json!({}),
        (None, None) => json!({
            "type": "object", "required": ["approved"],
            "properties": {
                "approved": { "type": "boolean" }, "reason": { "type": "string" },
                "editedArgs": { "type": "object" },
            },
        }),
    }
}

/// Parses an entry of `resume` in the request for this run.
pub(super) fn decision(entry: &Node<'_>, run: &str) -> Result<Input, DecodeError> {
    let interrupt = entry.field("interruptId")?;
    let id = interrupt.text()?;
    let rest = |kind| id.strip_prefix(kind).and_then(|rest: &str| rest.split_once(':'));
    let Some((digest, call)) = rest(APPROVAL).or_else(|| rest(INPUT)) else {
        let why = "This is not the id of an interrupt of a run: send the `id` that it has.";
        return Err(interrupt.error(why));
    };
    let payload = entry.get("payload").map(|payload| payload.value().clone());
    let decision = match entry.field("status")?.text()? {
        "cancelled" => Decision::Deny("The user has cancelled it.".into()),
        "resolved" if id.starts_with(APPROVAL) => approval(&entry.field("payload")?)?,
        "resolved" => Decision::Provide(Provided::Input(payload.unwrap_or_default())),
        _ => return Err(entry.field("status")?.error("It must be `resolved` or `cancelled`.")),
    };
    let result = ActionResult::new(call, digest, decision);
    Ok(InputEvent::ExternalActionResult(result).with_id(format!("{run}:{id}")))
}

fn approval(payload: &Node<'_>) -> Result<Decision, DecodeError> {
    let approved = payload.field("approved")?;
    let reason = || payload.str("reason").unwrap_or_default().to_owned();
    Ok(match (approved.bool()?, payload.get("editedArgs")) {
        (true, Some(edited)) => Decision::ApproveWith(edited.value().clone()),
        (true, None) => Decision::Approve,
        (false, _) => Decision::Deny(reason()),
    })
}
