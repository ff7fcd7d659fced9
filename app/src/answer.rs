//! Answers to questions, as users type them.

use loopwright_core::pattern::{AnswerForm, Question};
use serde_json::Value;

/// Returns the answer that a user typed. A secret is taken as it is; spaces around other answers
/// are removed.
///
/// # Errors
///
/// Returns why the text does not answer the question, without a full stop.
pub(crate) fn read_answer(question: &Question, typed: &str) -> Result<Value, String> {
    let text = if question.is_secret() { typed } else { typed.trim() };
    match &question.form {
        AnswerForm::Text | AnswerForm::Secret if text.is_empty() => {
            Err("the answer is empty".into())
        }
        _ => question.read(text),
    }
}
