//! [`Question`]: a question of a pattern or a model to the user, and the form of its answer.

use std::collections::HashSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ActionRequest, ToolError};
use crate::json;
use crate::tool::ToolOutput;
use crate::tool::action_options::ActionOptions;
use crate::tool::schema::Schema;

/// The kind of the action request of a question.
const KIND: &str = "question";

/// Maximum number of options of a question from outside.
const MAX_OPTIONS: usize = 1_000;

/// The name of the tool with which a model asks the user, and of a pattern's calls that ask.
pub(crate) const ASK_USER: &str = "ask_user";

/// A question to the user, and the form of its answer.
///
/// Patterns ask it with [`StepContext::question`](crate::StepContext::question), models with the
/// tool [`AskUser`](crate::tool::AskUser). Front ends read it from the pending action
/// ([`ExternalAction::question`](crate::event::ExternalAction::question)), show it, and answer with
/// the value that [`Question::read`] makes of the user's text.
///
/// ```
/// use loopwright_core::tool::Question;
/// use serde_json::json;
///
/// let question = Question::choice("Which colour?", ["red", "blue"]);
/// assert_eq!(question.read("2"), Ok(json!("blue")));
/// assert_eq!(question.read("blue"), Ok(json!("blue")));
/// assert!(question.read("green").unwrap_err().contains("red"));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Question {
    /// The text that the user sees.
    pub question: String,
    /// The form of the answer.
    #[serde(flatten)]
    pub form: AnswerForm,
    /// `true` if the answer goes to the tool that asked, which is called again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub(crate) resumes: bool,
    /// `true` if the model sees the question and its answer.
    #[serde(skip)]
    pub(crate) is_shown: bool,
    /// Options of the action: who may answer, and until when. `None` for the defaults.
    #[serde(skip)]
    pub(crate) options: Option<Arc<ActionOptions>>,
}

/// The form of an answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "form", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerForm {
    /// One of the options, as a string.
    Choice {
        /// The options, all of them different.
        options: Vec<String>,
    },
    /// Any number of the options, as an array of strings.
    Several {
        /// The options, all of them different.
        options: Vec<String>,
    },
    /// A text, as a string.
    Text,
    /// A JSON value that fits the schema.
    Json {
        /// The JSON Schema of the answer.
        schema: Value,
    },
    /// A text that is never shown, such as a password, as a string.
    Secret,
}

impl Question {
    fn new(question: impl Into<String>, form: AnswerForm) -> Self {
        Question { question: question.into(), form, resumes: false, is_shown: false, options: None }
    }

    /// Asks for one of the options. The answer is a string.
    pub fn choice<S: Into<String>>(
        question: impl Into<String>,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self::new(question, AnswerForm::Choice { options })
    }

    /// Asks for any number of the options, none included. The answer is an array of strings.
    pub fn several<S: Into<String>>(
        question: impl Into<String>,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self::new(question, AnswerForm::Several { options })
    }

    /// Asks for a text. The answer is a string.
    pub fn text(question: impl Into<String>) -> Self {
        Self::new(question, AnswerForm::Text)
    }

    /// Asks for a value of this type. The answer is JSON that fits its schema. This needs the
    /// feature `schema`, which checks such answers.
    pub fn json<T: JsonSchema>(question: impl Into<String>) -> Self {
        Self::json_schema(question, schemars::schema_for!(T).to_value())
    }

    /// Asks for a value that fits this JSON Schema.
    pub(crate) fn json_schema(question: impl Into<String>, schema: Value) -> Self {
        Self::new(question, AnswerForm::Json { schema })
    }

    /// Asks for a text that must not be shown, such as a password. The answer is a string.
    ///
    /// The answer is left out of events, of the conversation, and of the model's input. The
    /// session's log contains it, because it must survive a restart: the store must be as safe as
    /// the secret requires.
    pub fn secret(question: impl Into<String>) -> Self {
        Self::new(question, AnswerForm::Secret)
    }

    /// Shows the question and its answer to the model. By default the model sees neither.
    pub fn shown(mut self) -> Self {
        self.is_shown = true;
        self
    }

    /// Sets who may answer, until when, and what front ends show besides the question. A question
    /// without an answer is declined at the deadline. A question of the tool
    /// [`AskUser`](crate::tool::AskUser) has the options of the tool.
    pub fn options(mut self, options: ActionOptions) -> Self {
        self.options = Some(Arc::new(options));
        self
    }

    /// Returns the error with which a tool asks this question during a call. After the answer, the
    /// tool is called again and finds the answer in
    /// [`ToolContext::decision`](crate::ToolContext::decision). If the question is declined, the
    /// call is denied. The question's [`options`](Question::options) are ignored: the action has
    /// the tool's.
    ///
    /// ```
    /// use loopwright_core::tool::Question;
    /// use loopwright_core::{ToolContext, ToolError, ToolOutput};
    ///
    /// fn book(cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    ///     match cx.decision() {
    ///         Some(answer) => Ok(ToolOutput::text(format!("Booked for {}.", answer.data))),
    ///         None => Err(Question::text("For which day?").suspend()),
    ///     }
    /// }
    /// assert!(matches!(book(&ToolContext::detached()), Err(ToolError::Suspend(_))));
    /// ```
    pub fn suspend(mut self) -> ToolError {
        self.resumes = true;
        ToolError::Suspend(self.action_request())
    }

    /// Reads the user's text as an answer: an option or its number, counted from 1; options or
    /// numbers separated by commas; the text itself; or JSON.
    ///
    /// # Errors
    ///
    /// Returns a sentence for the user that names the answers that fit.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let option = |options: &[String], text: &str| {
            let text = text.trim();
            let by_number = || options.get(text.parse::<usize>().ok()?.checked_sub(1)?);
            let found = options.iter().find(|option| **option == *text).or_else(by_number);
            found.cloned().map(Value::String).ok_or_else(|| not_an_option(text, options))
        };
        let value = match &self.form {
            AnswerForm::Choice { options } => option(options, text)?,
            AnswerForm::Several { options } => {
                // An option may contain a comma.
                let is_one = options.iter().any(|option| *option == text.trim());
                let parts = if is_one { vec![text] } else { text.split(',').collect() };
                let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
                Value::Array(parts.map(|part| option(options, part)).collect::<Result<_, _>>()?)
            }
            AnswerForm::Text | AnswerForm::Secret => Value::String(text.to_owned()),
            AnswerForm::Json { .. } => json::read(text).map_err(|why| format!("it {why}"))?,
        };
        self.check(value)
    }

    /// Returns the answer if it fits the question.
    ///
    /// # Errors
    ///
    /// Returns a sentence for the user that names the answers that fit.
    pub fn check(&self, mut answer: Value) -> Result<Value, String> {
        match (&self.form, &mut answer) {
            (AnswerForm::Choice { options }, Value::String(chosen)) => {
                check_option(chosen, options)?;
            }
            (AnswerForm::Several { options }, Value::Array(chosen)) => {
                let mut seen = HashSet::new();
                for option in chosen.iter() {
                    let text = option.as_str().ok_or("each chosen option must be a string")?;
                    check_option(text, options)?;
                    if !seen.insert(text) {
                        return Err(format!("`{text}` is chosen twice"));
                    }
                }
            }
            (AnswerForm::Text | AnswerForm::Secret, Value::String(_)) => {}
            (AnswerForm::Json { schema }, value) => {
                Schema::compile_output(schema)?.check_answer(value)?
            }
            (AnswerForm::Several { .. }, _) => {
                return Err("the answer must be an array of the chosen options".into());
            }
            _ => return Err("the answer must be a string".into()),
        }
        Ok(answer)
    }

    /// Checks that an answer can fit a question from outside: a choice has at most 1,000 options
    /// without duplicates, and a schema is valid.
    ///
    /// # Errors
    ///
    /// Returns the error in the form.
    pub fn check_form(&self) -> Result<(), String> {
        match &self.form {
            AnswerForm::Choice { options } | AnswerForm::Several { options } => {
                if options.is_empty() {
                    return Err("it has no options".into());
                }
                if options.len() > MAX_OPTIONS {
                    return Err(format!("it has more than {MAX_OPTIONS} options"));
                }
                let mut seen = HashSet::new();
                match options.iter().find(|option| !seen.insert(*option)) {
                    Some(option) => Err(format!("it has the option `{option}` twice")),
                    None => Ok(()),
                }
            }
            AnswerForm::Json { schema } => Schema::compile_output(schema).map(drop),
            AnswerForm::Text | AnswerForm::Secret => Ok(()),
        }
    }

    /// Returns whether the answer must not be shown.
    pub fn is_secret(&self) -> bool {
        self.form == AnswerForm::Secret
    }

    /// Returns the request of the pending action.
    pub(crate) fn action_request(&self) -> ActionRequest {
        ActionRequest::new(KIND, serde_json::to_value(self).unwrap_or_default())
    }

    /// Returns the question of an action request, or `None` if the request is not a question.
    pub(crate) fn of(request: &ActionRequest) -> Option<Self> {
        if request.kind != KIND {
            return None;
        }
        Question::deserialize(&request.data).ok()
    }

    /// Returns the result of the call that asked, with the answer for the model and for front ends.
    pub(crate) fn output(&self, answer: &Value) -> ToolOutput {
        let text = match answer {
            _ if self.is_secret() => return ToolOutput::text("The user has answered."),
            Value::String(text) => text.clone(),
            Value::Array(chosen) if matches!(self.form, AnswerForm::Several { .. }) => {
                let chosen: Vec<&str> = chosen.iter().filter_map(Value::as_str).collect();
                if chosen.is_empty() { "None of them.".into() } else { chosen.join(", ") }
            }
            other => other.to_string(),
        };
        ToolOutput::text(text)
    }
}

fn check_option(chosen: &str, options: &[String]) -> Result<(), String> {
    if options.iter().any(|option| *option == *chosen) {
        Ok(())
    } else {
        Err(not_an_option(chosen, options))
    }
}

fn not_an_option(chosen: &str, options: &[String]) -> String {
    format!("`{}` is not one of the options: {}", chosen.trim(), options.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_must_fit_the_form() {
        let (choice, several) =
            (Question::choice("?", ["a", "b, c"]), Question::several("?", ["a", "b, c"]));
        for (question, answer, fits) in [
            (&choice, json!("a"), true),
            (&choice, json!("d"), false),
            (&choice, json!(["a"]), false),
            (&several, json!(["a", "b, c"]), true),
            (&several, json!([]), true),
            (&several, json!(["a", "a"]), false),
            (&several, json!([1]), false),
            (&several, json!("a"), false),
            (&Question::text("?"), json!("x"), true),
            (&Question::text("?"), json!(1), false),
            (&Question::secret("?"), json!("x"), true),
            (&Question::secret("?"), json!(null), false),
        ] {
            assert_eq!(question.check(answer.clone()).is_ok(), fits, "{question:?} {answer}");
        }
    }

    #[test]
    fn texts_are_read_as_options_numbers_and_lists() {
        let several = Question::several("?", ["a", "b, c"]);
        assert_eq!(several.read(" 2, a "), Ok(json!(["b, c", "a"])));
        assert_eq!(several.read("b, c"), Ok(json!(["b, c"])));
        assert_eq!(several.read(""), Ok(json!([])));
        let why = several.read("3").unwrap_err();
        assert_eq!(why, "`3` is not one of the options: a, b, c");
        assert_eq!(Question::text("?").read(" x "), Ok(json!(" x ")));
        // An option that is itself a number wins over the position.
        assert_eq!(Question::choice("?", ["2", "1"]).read("1"), Ok(json!("1")));
    }

    #[test]
    #[cfg(feature = "schema")]
    fn json_fits_its_schema() {
        let question = Question::json::<std::collections::BTreeMap<String, u32>>("?");
        assert_eq!(question.read("{\"a\": 1}"), Ok(json!({"a": 1})));
        assert!(question.read("{\"a\": -1}").unwrap_err().contains("/a"));
        assert!(question.read("{").unwrap_err().starts_with("it is not valid JSON"));
    }

    #[test]
    fn a_question_without_options_cannot_be_asked() {
        assert!(Question::choice("?", ["a"; 2]).check_form().unwrap_err().contains("twice"));
        assert!(Question::several::<&str>("?", []).check_form().is_err());
        assert_eq!(Question::choice("?", ["a", "b"]).check_form(), Ok(()));
    }

    #[test]
    fn it_is_read_back_from_its_request() {
        for question in [Question::choice("?", ["a"]), Question::text("?"), Question::secret("?")] {
            assert_eq!(Question::of(&question.action_request()), Some(question));
        }
    }
}
