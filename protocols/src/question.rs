//! Questions to the user, for protocols that describe an answer with JSON Schema.

use loopwright_core::pattern::{AnswerForm, Question};
use serde_json::{Value, json};

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
