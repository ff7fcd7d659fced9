//! Elicitation (MCP, *Elicitation*): a server's questions to the user.

use loopwright_core::excerpt;
use loopwright_core::tool::{AnswerForm, Question};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The maximum length of a message to the user.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

const YES: &str = "Yes";
const NO: &str = "No";
const DONE: &str = "Done";
const DECLINE: &str = "Decline";

/// The conversion of an answer to the content of a result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerShape {
    /// The answer is the content.
    Whole,
    /// The answer is the value of the only property.
    Property(String),
    /// The answer is `Yes` if the only property is true.
    Switch(String),
    /// The answer tells whether the user has done what the server asked for.
    Consent,
}

/// Returns the question to the user for the parameters of `elicitation/create` from this server.
///
/// # Errors
///
/// Returns a sentence if the parameters do not follow the protocol.
pub fn elicited_question(server: &str, params: &Value) -> Result<Question, String> {
    let params = ElicitRequestParams::deserialize(params)
        .map_err(|why| format!("These are no parameters of `elicitation/create`: {why}."))?;
    Ok(question(server, &params).0)
}

/// Returns a server's question, and the conversion of its answer.
pub(super) fn question(server: &str, params: &ElicitRequestParams) -> (Question, AnswerShape) {
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            form(&format!("{server}: {}", excerpt::bytes(message, MAX_MESSAGE_BYTES)), schema)
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let (message, url) = (
                excerpt::bytes(message, MAX_MESSAGE_BYTES),
                excerpt::bytes(url, MAX_MESSAGE_BYTES),
            );
            let text = format!("{server}: {message}\nOpen this page and check its address: {url}");
            (Question::choice(text, [DONE, DECLINE]), AnswerShape::Consent)
        }
        _ => {
            let text = format!("{server} asks in a way that is not known.");
            (Question::choice(text, [DECLINE]), AnswerShape::Consent)
        }
    }
}

/// Returns the simplest question for a schema.
fn form(message: &str, schema: Value) -> (Question, AnswerShape) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    if properties.is_empty() {
        return (Question::choice(message, [DONE, DECLINE]), AnswerShape::Consent);
    }
    if let (Some((name, property)), 1) = (properties.iter().next(), properties.len()) {
        let options: Option<Vec<&str>> = property["enum"]
            .as_array()
            .and_then(|options| options.iter().map(Value::as_str).collect())
            .filter(|options: &Vec<&str>| {
                let distinct: std::collections::HashSet<_> = options.iter().collect();
                !options.is_empty() && distinct.len() == options.len()
            });
        let about = property["description"].as_str().or(property["title"].as_str());
        let message = match about {
            Some(about) => format!("{message}\n{}", excerpt::bytes(about, MAX_MESSAGE_BYTES)),
            None => message.to_owned(),
        };
        let is_free = ["enum", "oneOf", "format", "minLength", "maxLength", "pattern"]
            .iter()
            .all(|key| property.get(key).is_none());
        match (property["type"].as_str(), options) {
            (Some("boolean"), _) => {
                let question = Question::choice(message, [YES, NO]);
                return (question, AnswerShape::Switch(name.clone()));
            }
            (_, Some(options)) => {
                let question = Question::choice(message, options);
                return (question, AnswerShape::Property(name.clone()));
            }
            (Some("string"), None) if is_free => {
                return (Question::text(message), AnswerShape::Property(name.clone()));
            }
            _ => {}
        }
    }
    let mut question = Question::text(message);
    question.form = AnswerForm::Json { schema };
    (question, AnswerShape::Whole)
}

/// Returns the result for an answer that fits the question.
pub(super) fn result(shape: &AnswerShape, answer: Value) -> ElicitResult {
    let accept =
        |content: Value| ElicitResult::new(ElicitationAction::Accept).with_content(content);
    match shape {
        AnswerShape::Whole => accept(answer),
        AnswerShape::Property(name) => accept(json!({ name: answer })),
        AnswerShape::Switch(name) => accept(json!({ name: answer == YES })),
        AnswerShape::Consent if answer == DONE => accept(json!({})),
        AnswerShape::Consent => ElicitResult::new(ElicitationAction::Decline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(schema: Value) -> (Question, AnswerShape) {
        let params = json!({ "mode": "form", "message": "Who?", "requestedSchema": schema });
        question("s", &serde_json::from_value(params).unwrap())
    }

    #[test]
    fn a_form_is_the_simplest_question() {
        let property = |schema: Value| json!({ "type": "object", "properties": { "x": schema } });
        let (question, shape) = ask(property(json!({ "type": "boolean" })));
        assert_eq!(question, Question::choice("s: Who?", ["Yes", "No"]));
        assert_eq!(result(&shape, json!("Yes")).content, Some(json!({ "x": true })));
        let colours = json!({ "type": "string", "enum": ["red", "blue"], "description": "Which?" });
        let (question, shape) = ask(property(colours));
        assert_eq!(question, Question::choice("s: Who?\nWhich?", ["red", "blue"]));
        assert_eq!(result(&shape, json!("red")).content, Some(json!({ "x": "red" })));
        let (question, shape) = ask(property(json!({ "type": "string" })));
        assert_eq!(question, Question::text("s: Who?"));
        assert_eq!(result(&shape, json!("Ann")).content, Some(json!({ "x": "Ann" })));
        let (question, shape) = ask(property(json!({ "type": "string", "format": "email" })));
        assert!(matches!(question.form, AnswerForm::Json { .. }), "{question:?}");
        let whole = json!({ "x": "a@b.c" });
        assert_eq!(result(&shape, whole.clone()).content, Some(whole));
        let (_, shape) = ask(json!({ "type": "object", "properties": {} }));
        assert_eq!(result(&shape, json!("Decline")).action, ElicitationAction::Decline);
    }

    #[test]
    fn a_page_is_shown_with_its_address() {
        let params = json!({
            "mode": "url", "message": "Log in.", "url": "https://a/b", "elicitationId": "1",
        });
        let (question, shape) = question("s", &serde_json::from_value(params).unwrap());
        assert!(question.question.contains("https://a/b"), "{question:?}");
        assert_eq!(result(&shape, json!("Done")).action, ElicitationAction::Accept);
    }
}
