//! Pending actions: requests to the client, and the decisions.

use std::path::Path;

use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_core::tool::{AnswerForm, DecisionKind, Question};
use serde_json::{Value, json};

use super::update::tool_call;

/// The reason of a denial, for the model.
const DENIED: &str = "the user said no";

/// The field of a form that contains the answer.
const FIELD: &str = "answer";

/// The answer of the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The decision on this action.
    Decision(Decision),
    /// An approval of the call, and of all later calls of the tool without a request.
    Always,
    /// The turn was cancelled before a decision.
    Cancelled,
    /// An answer that does not fit the request. Contains the reason.
    Invalid(String),
    /// The user closed the form without a decision.
    Dismissed,
}

/// A request for permission: the choices of the user, and their answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    /// The call, as `toolCall` of `session/request_permission`.
    call: Value,
    /// The name, the kind and the answer of each choice. A choice's id is its position.
    options: Vec<(String, &'static str, Answer)>,
}

impl Permission {
    /// Returns the request for a pending action that a choice can decide: the approval of a call,
    /// or a question with options. Returns `None` for other actions. `content` is shown with the
    /// call. If `can_always` is true, a choice allows all later calls of the tool.
    pub fn new(
        action: &ExternalAction,
        cwd: &Path,
        content: Vec<Value>,
        can_always: bool,
    ) -> Option<Self> {
        let mut call = tool_call(&action.call, &action.name, &action.arguments, cwd);
        call["content"] = content.into();
        let mut options = Vec::new();
        match (&action.request, action.question().map(|asked| (asked.question, asked.form))) {
            (None, _) if action.terms.allows(DecisionKind::Approve) => {
                let approve = Answer::Decision(Decision::Approve);
                options.push(("Allow".to_owned(), "allow_once", approve));
                if can_always {
                    let name = format!("Always allow {}", action.name);
                    options.push((name, "allow_always", Answer::Always));
                }
            }
            (None, _) => {}
            (Some(_), Some((question, AnswerForm::Choice { options: choices }))) => {
                call["title"] = question.into();
                options.extend(choices.into_iter().map(|choice| {
                    let answer = Provided::Input(choice.clone().into());
                    (choice, "allow_once", Answer::Decision(Decision::Provide(answer)))
                }));
            }
            _ => return None,
        }
        if action.terms.allows(DecisionKind::Deny) {
            let deny = Answer::Decision(Decision::Deny(DENIED.into()));
            options.push(("Reject".to_owned(), "reject_once", deny));
        }
        Some(Permission { call, options })
    }

    /// Returns the parameters of `session/request_permission`.
    pub fn params(&self, session: &str) -> Value {
        let options = self.options.iter().enumerate().map(|(at, (name, kind, _))| {
            json!({ "optionId": at.to_string(), "name": name, "kind": kind })
        });
        let options: Vec<Value> = options.collect();
        json!({ "sessionId": session, "toolCall": self.call, "options": options })
    }

    /// Returns the user's answer in the response of the client.
    pub fn answer(&self, response: &Value) -> Answer {
        let outcome = &response["outcome"];
        if outcome["outcome"] == "cancelled" {
            return Answer::Cancelled;
        }
        let id = outcome["optionId"].as_str().unwrap_or_default();
        let option = id.parse().ok().and_then(|at: usize| self.options.get(at));
        let invalid = || Answer::Invalid(format!("`{id}` is none of the options"));
        option.map_or_else(invalid, |(_, _, answer)| answer.clone())
    }
}

/// Returns the parameters of `elicitation/create` for a question of a session. Returns `None` for a
/// secret, which the protocol forbids in a form. `why` is the reason why the last answer did not
/// fit.
pub fn form(
    session: &str,
    action: &ExternalAction,
    question: &Question,
    why: Option<&str>,
) -> Option<Value> {
    let field = match &question.form {
        AnswerForm::Choice { options } => json!({ "type": "string", "enum": options }),
        AnswerForm::Several { options } => {
            json!({ "type": "array", "items": { "type": "string", "enum": options } })
        }
        AnswerForm::Json { schema } => {
            json!({ "type": "string", "description": format!("JSON that fits {schema}") })
        }
        AnswerForm::Text => json!({ "type": "string", "minLength": 1 }),
        _ => return None,
    };
    let why = why.map(|why| format!("\n\nThe last answer does not fit: {why}."));
    let message = format!("{}{}", question.question, why.unwrap_or_default());
    let schema = json!({ "type": "object", "properties": { FIELD: field }, "required": [FIELD] });
    Some(json!({ "sessionId": session, "toolCallId": action.call, "mode": "form",
        "message": message, "requestedSchema": schema }))
}

/// Returns the user's answer in the response to a form.
pub fn read_form(question: &Question, response: &Value) -> Answer {
    match response["action"].as_str() {
        Some("accept") => {}
        Some("decline") => return Answer::Decision(Decision::Deny(DENIED.into())),
        _ => return Answer::Dismissed,
    }
    let answer = match (&question.form, &response["content"][FIELD]) {
        (AnswerForm::Json { .. }, Value::String(text)) => question.read(text),
        (_, answer) => question.check(answer.clone()),
    };
    match answer {
        Ok(answer) => Answer::Decision(Decision::Provide(Provided::Input(answer))),
        Err(why) => Answer::Invalid(why),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::tool::ActionRequest;

    use super::*;

    fn action(question: Option<Question>) -> ExternalAction {
        let data = question.map(|question| serde_json::to_value(question).unwrap());
        let request = data.map(|data| Arc::new(ActionRequest::new("question", data)));
        ExternalAction::new("c1", "pay", json!({ "path": "a" }), "digest").request(request)
    }

    fn permission(action: &ExternalAction, can_always: bool) -> Option<Permission> {
        Permission::new(action, Path::new("/w"), Vec::new(), can_always)
    }

    fn chosen(id: &str) -> Value {
        json!({ "outcome": { "outcome": "selected", "optionId": id } })
    }

    #[test]
    fn a_call_is_allowed_once_or_always_or_rejected() {
        let permission = permission(&action(None), true).unwrap();
        let params = permission.params("s");
        let kinds: Vec<_> =
            params["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
        assert_eq!(params["toolCall"]["locations"], json!([{ "path": "/w/a" }]));
        let approve = Answer::Decision(Decision::Approve);
        assert_eq!(permission.answer(&chosen("0")), approve);
        assert_eq!(permission.answer(&chosen("1")), Answer::Always);
        let deny = Answer::Decision(Decision::Deny(DENIED.into()));
        assert_eq!(permission.answer(&chosen("2")), deny);
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        assert_eq!(permission.answer(&cancelled), Answer::Cancelled);
    }

    #[test]
    fn a_choice_that_was_not_offered_decides_nothing() {
        let permission = permission(&action(None), false).unwrap();
        for response in [chosen("2"), chosen("-1"), chosen("allow"), json!({}), json!([1])] {
            let answer = permission.answer(&response);
            assert!(matches!(answer, Answer::Invalid(_)), "{response}: {answer:?}");
        }
    }

    #[test]
    fn a_question_is_answered_by_one_of_its_options() {
        let question = Question::choice("Which?", ["red", "blue"]);
        let permission = permission(&action(Some(question)), true).unwrap();
        assert_eq!(permission.params("s")["toolCall"]["title"], "Which?");
        let answer = Answer::Decision(Decision::Provide(Provided::Input(json!("blue"))));
        assert_eq!(permission.answer(&chosen("1")), answer);
        for other in [Question::text("Why?"), Question::secret("Key?")] {
            assert_eq!(self::permission(&action(Some(other)), true), None);
        }
    }

    #[test]
    fn each_question_but_a_secret_has_a_form() {
        let form = |question: &Question, why| form("s", &action(None), question, why);
        let several = form(&Question::several("Which?", ["a"]), Some("it is none")).unwrap();
        let field = &several["requestedSchema"]["properties"]["answer"];
        assert_eq!(field["items"]["enum"], json!(["a"]));
        assert!(several["message"].as_str().unwrap().contains("it is none"));
        let text = form(&Question::text("Why?"), None).unwrap();
        assert_eq!(text["requestedSchema"]["properties"]["answer"]["type"], "string");
        assert_eq!(form(&Question::secret("Key?"), None), None);
    }

    #[test]
    fn an_answer_must_fit_its_question() {
        let choice = Question::choice("Which?", ["a"]);
        let accept = |content: Value| {
            let content = json!({ "answer": content });
            read_form(&choice, &json!({ "action": "accept", "content": content }))
        };
        let input = Decision::Provide(Provided::Input(json!("a")));
        assert_eq!(accept(json!("a")), Answer::Decision(input));
        assert!(matches!(accept(json!("b")), Answer::Invalid(_)));
        assert!(matches!(read_form(&choice, &json!({ "action": "accept" })), Answer::Invalid(_)));
        let declined = read_form(&choice, &json!({ "action": "decline" }));
        assert!(matches!(declined, Answer::Decision(Decision::Deny(_))));
        for closed in [json!({ "action": "cancel" }), json!({}), json!([])] {
            assert_eq!(read_form(&choice, &closed), Answer::Dismissed);
        }
    }
}
