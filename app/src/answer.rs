//! Answers to questions, as users type them.

use loopwright_core::tool::{AnswerForm, Question};
use serde_json::Value;

/// Parses the answer that a user typed. Spaces around it are removed, except around a secret.
///
/// # Errors
///
/// Returns the reason as a phrase without a full stop.
pub(crate) fn read_answer(question: &Question, typed: &str) -> Result<Value, String> {
    let text = if question.is_secret() { typed } else { typed.trim() };
    match &question.form {
        AnswerForm::Text | AnswerForm::Secret if text.is_empty() => {
            Err("the answer is empty".into())
        }
        _ => question.read(text),
    }
}
