//! How a model is asked for an answer that fits a schema, where it has a field for that and where it has none.

use std::borrow::Cow;

use loopwright::{ChatRequest, ToolChoice};
use serde_json::{Value, json};

use super::Settings;
use super::profile::Answers;
use crate::json::bytes;
use crate::schema::{closed, parameters};

/// Begins the name of the tool that takes the answer. Its call is no call to anybody else, but the reply's text.
const TOOL: &str = "loopwright_answer_";

/// What is asked of the answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Nothing.
    Free,
    /// That it fits this schema, which the server sees to.
    Schema(Value),
    /// That it is a call of this tool.
    Tool(Value),
    /// That it fits the schema, in words: the request forces a tool already, or forbids it by thinking.
    Words,
}

impl Answer {
    /// What `request` asks for, as far as the model can be told.
    pub(super) fn of(request: &ChatRequest, settings: &Settings, thinks: bool) -> Answer {
        let Some(output) = &request.output else { return Answer::Free };
        let own = |name| settings.options.contains_key(name);
        if settings.profile.answers == Answers::Schema
            && !own("output_config")
            && let Some(schema) = closed(&output.schema)
        {
            return Answer::Schema(schema);
        }
        // A forced tool excludes thinking, and a tool takes an object.
        let free = request.tool_choice == ToolChoice::Auto && !own("tool_choice") && !own("thinking");
        if thinks || !free || output.schema["type"] != "object" {
            return Answer::Words;
        }
        let name: String = format!("{TOOL}{}", output.name).chars().take(64).collect();
        let description = "Gives the final answer. Call it once, alone, when nothing else is left to do.";
        Answer::Tool(json!({"name": name, "description": description, "input_schema": *parameters(&output.schema)}))
    }

    /// The tools of the request, and the answer's own.
    pub(super) fn beside<'a>(&self, tools: Option<Cow<'a, [u8]>>) -> Option<Cow<'a, [u8]>> {
        let Answer::Tool(tool) = self else { return tools };
        let mut list = tools.map_or_else(|| b"[]".to_vec(), Cow::into_owned);
        list.pop();
        if list.len() > 1 {
            list.push(b',');
        }
        list.extend_from_slice(&bytes(tool));
        list.push(b']');
        Some(list.into())
    }
}

/// Whether a call is no call, but the answer.
pub(super) fn is_answer(tool: &str) -> bool {
    tool.starts_with(TOOL)
}
