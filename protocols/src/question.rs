//! Pending actions: the question to the user, and the JSON Schema of an answer.

use loopwright_core::event::ExternalAction;
use loopwright_core::tool::{AnswerForm, Question};
use serde_json::{Value, json};

/// Returns a sentence about what an action waits for.
pub(crate) fn action_text(action: &ExternalAction) -> String {
    match (action.question(), action.terms.description.as_deref()) {
        (Some(question), _) => question.question,
        (None, Some(description)) => description.to_owned(),
        (None, None) => format!("`{}` needs a decision.", action.name),
    }
}

/// Returns the schema of the answers that fit a question.
pub(crate) fn answer_schema(question: &Question) -> Value {
    match &question.form {
        AnswerForm::Choice { options } => json!({ "type": "string", "enum": options }),
        AnswerForm::Several { options } => json!({
            "type": "array", "items": { "type": "string", "enum": options }, "uniqueItems": true,
        }),
        AnswerForm::Json { schema } if schema.is_object() => schema.clone(),
        AnswerForm::Json { .. } => json!({}),
        AnswerForm::Secret => json!({ "type": "string", "format": "password" }),
        _ => json!({ "type": "string" }),
    }
}
