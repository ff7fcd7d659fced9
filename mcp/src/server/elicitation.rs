//! Pending actions as forms of elicitation, and the answers as decisions.

use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_core::tool::{AnswerForm, DecisionKind, Question};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};

/// The reason of a denial without a reason from the user.
const DECLINED: &str = "the user declined";

/// Returns whether a client can ask its user for the decision on this action.
///
/// It cannot in three cases: for a secret, which forms must not ask for ("Elicitation", "Safe URLs
/// and sensitive information"); for a call that several people must approve, since a client has one
/// user; and for a suspended call without a question.
pub fn is_elicitable(action: &ExternalAction) -> bool {
    match (action.question(), &action.request) {
        (Some(question), _) => !question.is_secret(),
        (None, Some(_)) => false,
        (None, None) => action.terms.quorum <= 1,
    }
}

/// Returns the form for a decision on an action. `preview` is the change that the call would make.
/// `problem` is the reason why the last answer was not accepted. `arrays` is true if the client
/// supports array properties, which came with version 2025-11-25.
pub(super) fn form(
    action: &ExternalAction,
    preview: Option<&str>,
    problem: Option<&str>,
    arrays: bool,
) -> Option<ElicitRequestParams> {
    let question = action.question();
    let schema = match &question {
        Some(question) => answer_schema(question, arrays),
        None => approval_schema(action),
    };
    let mut message = problem.map(|why| format!("{why}\n\n")).unwrap_or_default();
    message += &match &question {
        Some(question) => format!("{}{}", of_agent(action), question.question),
        None => format!("{}{} {}", of_agent(action), action.name, action.arguments),
    };
    for more in [action.terms.description.as_deref(), preview].into_iter().flatten() {
        message += &format!("\n\n{more}");
    }
    let requested_schema = schema?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns the path of the sub-agents that an action comes from, with a colon.
fn of_agent(action: &ExternalAction) -> String {
    if action.path.is_empty() { String::new() } else { format!("{}: ", action.path.join("/")) }
}

fn approval_schema(action: &ExternalAction) -> Option<ElicitationSchema> {
    let can_approve = action.terms.allows(DecisionKind::Approve);
    let can_edit = action.terms.allows(DecisionKind::ApproveWith);
    let decisions: &[&str] = if can_approve || can_edit { &["approve", "deny"] } else { &["deny"] };
    let mut properties = json!({
        "decision": { "type": "string", "title": "Decision", "enum": decisions },
        "reason": {
            "type": "string",
            "title": "Reason",
            "description": "For a denial: what the agent is told.",
        },
    });
    let mut order = vec!["decision", "reason"];
    if can_edit {
        let arguments = action.arguments.to_string();
        properties["arguments"] = json!({
            "type": "string",
            "title": "Arguments",
            "description": "The call runs with these arguments, as JSON.",
            "default": arguments,
        });
        order.insert(1, "arguments");
    }
    object(properties, &["decision"], &order)
}

fn answer_schema(question: &Question, arrays: bool) -> Option<ElicitationSchema> {
    let answer = match &question.form {
        AnswerForm::Choice { options } => json!({ "type": "string", "enum": options }),
        AnswerForm::Several { options } if arrays => {
            json!({ "type": "array", "items": { "type": "string", "enum": options } })
        }
        AnswerForm::Several { options } => {
            let options = options.join(", ");
            json!({ "type": "string", "description": format!("Any of, with commas: {options}") })
        }
        AnswerForm::Json { schema } => match flat(schema) {
            Some(schema) => return Some(schema),
            None => json!({ "type": "string", "description": format!("JSON that fits {schema}") }),
        },
        AnswerForm::Text => json!({ "type": "string" }),
        _ => return None,
    };
    object(json!({ "answer": answer }), &["answer"], &["answer"])
}

/// Converts the schema of an answer to the schema of a form. Returns `None` if it is not an object
/// whose properties are all primitive.
fn flat(schema: &Value) -> Option<ElicitationSchema> {
    ElicitationSchema::from_json_schema(schema.as_object()?.clone()).ok()
}

fn object(properties: Value, required: &[&str], order: &[&str]) -> Option<ElicitationSchema> {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let mut schema = flat(&schema)?;
    schema.property_order = Some(order.iter().map(|name| (*name).to_owned()).collect());
    Some(schema)
}

/// Returns the decision in a client's `ElicitResult`, or `None` if the user has dismissed the form.
///
/// # Errors
///
/// Returns a sentence for the user if the answer does not fit the action.
pub fn decode_elicit_result(
    action: &ExternalAction,
    result: &Value,
) -> Result<Option<Decision>, String> {
    let result: ElicitResult = serde_json::from_value(result.clone())
        .map_err(|why| format!("The client's answer is not valid: {why}."))?;
    let content = result.content.unwrap_or_default();
    match (result.action, action.question()) {
        (ElicitationAction::Decline, _) => Ok(Some(Decision::Deny(DECLINED.into()))),
        (ElicitationAction::Accept, Some(question)) => answer(&question, content).map(Some),
        (ElicitationAction::Accept, None) => approval(action, &content).map(Some),
        _ => Ok(None),
    }
}

fn answer(question: &Question, content: Value) -> Result<Decision, String> {
    let is_flat = matches!(&question.form, AnswerForm::Json { schema } if flat(schema).is_some());
    let checked = match &content["answer"] {
        _ if is_flat => question.check(content),
        Value::String(text) => question.read(text),
        other => question.check(other.clone()),
    };
    let answer = checked.map_err(|why| format!("The answer does not fit: {why}."))?;
    Ok(Decision::Provide(Provided::Input(answer)))
}

fn approval(action: &ExternalAction, content: &Value) -> Result<Decision, String> {
    match content["decision"].as_str() {
        Some("approve") => {}
        Some("deny") => {
            let reason = content["reason"].as_str().filter(|reason| !reason.trim().is_empty());
            return Ok(Decision::Deny(reason.unwrap_or(DECLINED).into()));
        }
        _ => return Err("The decision is missing: it is `approve` or `deny`.".into()),
    }
    let Some(text) = content["arguments"].as_str().filter(|text| !text.trim().is_empty()) else {
        return Ok(Decision::Approve);
    };
    let arguments: Value = serde_json::from_str(text)
        .map_err(|why| format!("The arguments are not JSON, so the call has not run: {why}."))?;
    Ok(match arguments == *action.arguments {
        true => Decision::Approve,
        false => Decision::ApproveWith(arguments),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::tool::{ActionRequest, ActionTerms};

    use super::*;

    fn payment() -> ExternalAction {
        ExternalAction::new("c", "pay", Arc::new(json!({ "amount": 7 })), "d")
    }

    fn asking(question: Value) -> ExternalAction {
        let request = ActionRequest::new("question", question);
        ExternalAction::new("c", "ask_user", Value::Null, "d").request(Arc::new(request))
    }

    fn accepted(content: Value) -> Value {
        json!({ "action": "accept", "content": content })
    }

    fn schema(action: &ExternalAction, arrays: bool) -> Value {
        let form = form(action, None, None, arrays).unwrap();
        serde_json::to_value(form).unwrap()["requestedSchema"].take()
    }

    #[test]
    fn a_call_is_approved_edited_denied_or_left_pending() {
        let edited = json!({ "decision": "approve", "arguments": "{\"amount\": 5}" });
        let unchanged = json!({ "decision": "approve", "arguments": "{ \"amount\": 7 }" });
        let reason = json!({ "decision": "deny", "reason": "too much" });
        let deny = |why: &str| Decision::Deny(why.into());
        for (result, decision) in [
            (accepted(json!({ "decision": "approve" })), Some(Decision::Approve)),
            (accepted(unchanged), Some(Decision::Approve)),
            (accepted(edited), Some(Decision::ApproveWith(json!({ "amount": 5 })))),
            (accepted(reason), Some(deny("too much"))),
            (accepted(json!({ "decision": "deny", "reason": " " })), Some(deny(DECLINED))),
            (json!({ "action": "decline" }), Some(deny(DECLINED))),
            (json!({ "action": "cancel" }), None),
        ] {
            assert_eq!(decode_elicit_result(&payment(), &result), Ok(decision), "{result}");
        }
        // Nothing but an explicit approval approves a call.
        let broken = json!({ "decision": "approve", "arguments": "{" });
        for wrong in [
            accepted(json!({})),
            accepted(json!({ "decision": "Approve" })),
            accepted(json!({ "decision": true })),
            accepted(broken),
            json!({ "action": "accept" }),
            json!({ "action": "approve" }),
            json!(null),
            json!([1]),
        ] {
            let refused = decode_elicit_result(&payment(), &wrong);
            assert!(refused.is_err(), "{wrong}: {refused:?}");
        }
    }

    #[test]
    fn a_form_shows_the_call_and_offers_what_its_terms_allow() {
        let mut terms = ActionTerms::default();
        terms.description = Some("From the company's account.".into());
        let action = payment().terms(terms.clone());
        let form = form(&action, Some("-1\n+2"), Some("The arguments are not JSON."), true);
        let form = serde_json::to_value(form).unwrap();
        let message = "The arguments are not JSON.\n\npay {\"amount\":7}\n\n\
                       From the company's account.\n\n-1\n+2";
        assert_eq!(form["message"], message);
        let shown = schema(&action, true);
        assert_eq!(shown["properties"]["decision"]["enum"], json!(["approve", "deny"]));
        assert_eq!(shown["properties"]["arguments"]["default"], "{\"amount\":7}");
        assert_eq!(shown["required"], json!(["decision"]));
        terms.decisions = vec![DecisionKind::Approve];
        let shown = schema(&payment().terms(terms.clone()), true);
        assert_eq!(shown["properties"].get("arguments"), None);
        terms.quorum = 2;
        assert!(is_elicitable(&action) && !is_elicitable(&payment().terms(terms)));
    }

    #[test]
    fn a_question_is_asked_in_the_form_of_its_answer() {
        let options = json!(["red", "dark blue"]);
        let choice = asking(json!({ "question": "?", "form": "choice", "options": options }));
        let several = asking(json!({ "question": "?", "form": "several", "options": options }));
        let text = asking(json!({ "question": "?", "form": "text" }));
        let flat = json!({ "type": "object", "properties": { "r": { "type": "integer" } } });
        let flat = asking(json!({ "question": "?", "form": "json", "schema": flat }));
        let deep = json!({ "type": "array", "items": { "type": "integer" } });
        let deep = asking(json!({ "question": "?", "form": "json", "schema": deep }));
        let answer =
            |action: &ExternalAction, arrays| schema(action, arrays)["properties"]["answer"].take();
        assert_eq!(answer(&choice, false)["enum"], options);
        assert_eq!(answer(&several, true)["items"]["enum"], options);
        assert_eq!(answer(&several, false)["type"], "string");
        assert_eq!(schema(&flat, false)["properties"]["r"]["type"], "integer");
        assert_eq!(answer(&deep, true)["type"], "string");
        let provided = |value: Value| Ok(Some(Decision::Provide(Provided::Input(value))));
        for (action, content, value) in [
            (&choice, json!({ "answer": "red" }), json!("red")),
            (&several, json!({ "answer": ["red"] }), json!(["red"])),
            (&several, json!({ "answer": "2, red" }), json!(["dark blue", "red"])),
            (&text, json!({ "answer": "x" }), json!("x")),
            (&flat, json!({ "r": 7 }), json!({ "r": 7 })),
            (&deep, json!({ "answer": "[1, 2]" }), json!([1, 2])),
        ] {
            let decision = decode_elicit_result(action, &accepted(content));
            assert_eq!(decision, provided(value));
        }
        for (action, content) in [
            (&choice, json!({ "answer": "green" })),
            (&several, json!({ "answer": [7] })),
            (&text, json!({})),
            (&flat, json!({ "r": "x" })),
            (&deep, json!({ "answer": "[" })),
        ] {
            assert!(decode_elicit_result(action, &accepted(content)).is_err());
        }
        let secret = asking(json!({ "question": "?", "form": "secret" }));
        assert!(!is_elicitable(&secret) && form(&secret, None, None, true).is_none());
        let login = ActionRequest::new("login", Value::Null);
        assert!(!is_elicitable(&payment().request(Arc::new(login))));
    }
}
