//! [`AskUser`], the tool with which a model asks the user.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::ToolError;
use crate::tool::question::{ASK_USER, Question};
use crate::tool::{ActionOptions, Approval, Effect, Tool, ToolContext, ToolOutput, ToolSpec};

const DESCRIPTION: &str = "Asks the user a question and returns the answer. Use it when you cannot \
    decide something that only the user knows and that changes what you do. Do not ask for \
    passwords or keys: you would see them.";

/// The tool `ask_user`, with which a model asks the user a question. Its result is the answer.
///
/// The call suspends with the [`Question`] as its request, like
/// [`StepContext::question`](crate::StepContext::question), so front ends handle both in the same
/// way: they show [`ExternalAction::question`](crate::event::ExternalAction::question) and resolve
/// the action with the answer as its input, or deny it. An answer that does not fit the question is
/// refused. Models cannot ask for secrets, because they see every answer.
///
/// ```
/// use loopwright_core::tool::AskUser;
/// use loopwright_core::{Tool, ToolContext, ToolError};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let arguments = json!({"question": "Which colour?", "options": ["red", "blue"]});
/// let suspended = AskUser::new().call(&arguments, ToolContext::detached()).await;
/// let Err(ToolError::Suspend(request)) = suspended else { panic!() };
/// assert_eq!(request.kind, "question");
/// # }
/// ```
pub struct AskUser(Arc<ToolSpec>);

/// The arguments of a call. `null` is the same as an omitted argument.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    question: String,
    #[serde(default)]
    options: Option<Vec<String>>,
    #[serde(default)]
    several: Option<bool>,
    #[serde(default)]
    schema: Option<Map<String, Value>>,
}

impl AskUser {
    /// Builds the tool. Its argument `schema`, for answers in JSON, exists only with the feature
    /// `schema`, which checks such answers.
    pub fn new() -> Self {
        let spec = ToolSpec::with_schema(ASK_USER, DESCRIPTION, schema());
        let spec = spec.title("Ask the user").effect(Effect::ReadOnly);
        AskUser(Arc::new(spec.approval(Approval::Never)))
    }

    /// Sets who may answer the questions, and until when. A question without an answer is declined
    /// at the deadline.
    pub fn options(self, options: ActionOptions) -> Self {
        AskUser(Arc::new(ToolSpec::clone(&self.0).action_options(options)))
    }
}

impl Default for AskUser {
    fn default() -> Self {
        Self::new()
    }
}

fn schema() -> Value {
    let mut properties = json!({
        "question": {
            "type": "string",
            "description": "The question, as the user reads it.",
        },
        "options": {
            "type": ["array", "null"],
            "items": { "type": "string" },
            "description": "The answers to choose from, each of which differs from the others. \
                            Without them the user answers with a text.",
        },
        "several": {
            "type": ["boolean", "null"],
            "description": "Whether the user may choose any number of the options; one by default.",
        },
    });
    if cfg!(feature = "schema")
        && let Some(properties) = properties.as_object_mut()
    {
        let description = "A JSON Schema, instead of options: the user answers with JSON that \
                           fits it.";
        let schema = json!({ "type": ["object", "null"], "description": description });
        properties.insert("schema".into(), schema);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": ["question"],
        "additionalProperties": false,
    })
}

impl Arguments {
    fn read(arguments: &Value) -> Result<Self, String> {
        let read = Arguments::deserialize(arguments);
        read.map_err(|why| format!("The arguments do not fit: {why}."))
    }

    /// Returns the question. The error tells the model what to correct.
    fn question(self) -> Result<Question, String> {
        let Arguments { question: text, options, several, schema } = self;
        if text.trim().is_empty() {
            return Err("`question` is empty: write what you want to know.".into());
        }
        let question = match (options, several.unwrap_or_default(), schema) {
            (Some(_), _, Some(_)) => {
                let why = "`options` and `schema` exclude each other: give one of them.";
                return Err(why.into());
            }
            (None, true, _) => {
                let why = "`several` needs `options`: list the answers to choose from.";
                return Err(why.into());
            }
            (Some(options), false, None) => Question::choice(text, options),
            (Some(options), true, None) => Question::several(text, options),
            (None, false, None) => Question::text(text),
            (None, false, Some(schema)) => Question::json_schema(text, schema.into()),
        };
        let checked = question.check_form().map(|()| question);
        checked.map_err(|why| {
            format!(
                "The question cannot be asked: {why}. Correct `options` or `schema`, or leave it \
                 out to ask for a text."
            )
        })
    }
}

#[async_trait]
impl Tool for AskUser {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        Some(Arguments::read(arguments).map(drop))
    }

    async fn call(&self, arguments: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        // The session finishes the call with the answer, without calling the tool again.
        let question = Arguments::read(arguments).and_then(Arguments::question);
        let question = question.map_err(ToolError::Failed)?;
        Err(ToolError::Suspend(question.action_request()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(arguments: Value) -> Result<Question, String> {
        Arguments::read(&arguments).and_then(Arguments::question)
    }

    #[test]
    fn the_arguments_choose_the_form() {
        let options = json!(["a", "b"]);
        for (arguments, expected) in [
            (json!({"question": "?"}), Question::text("?")),
            (
                json!({"question": "?", "options": null, "several": null, "schema": null}),
                Question::text("?"),
            ),
            (json!({"question": "?", "options": options}), Question::choice("?", ["a", "b"])),
            (
                json!({"question": "?", "options": options, "several": true}),
                Question::several("?", ["a", "b"]),
            ),
        ] {
            assert_eq!(question(arguments), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_asked_is_an_error_that_says_what_to_do() {
        let options: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
        for (arguments, expected) in [
            (json!({"question": " "}), "write what you want to know"),
            (json!({"question": "?", "options": []}), "it has no options. Correct `options`"),
            (json!({"question": "?", "options": ["a", "a"]}), "the option `a` twice"),
            (json!({"question": "?", "options": options}), "more than 1000 options"),
            (json!({"question": "?", "several": true}), "list the answers"),
            (json!({"question": "?", "options": ["a"], "schema": {}}), "exclude each other"),
            (json!({"question": "?", "schema": {"type": 7}}), "cannot be asked"),
            (json!({"question": "?", "secret": true}), "unknown field `secret`"),
        ] {
            let why = question(arguments).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
