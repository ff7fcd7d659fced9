//! How a model is asked for an answer that matches a schema, with and without a field for it.

use std::borrow::Cow;

use loopwright_core::model::{ChatRequest, ToolChoice};
use serde_json::Value;

use super::profile::Answers;
use super::profile::Settings;
use crate::answer_tool::{tool, with};
use crate::schema::closed;

/// How the answer is requested.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Without a schema.
    Free,
    /// With a schema, which the server enforces.
    Schema(Value),
    /// As a call of this tool.
    Tool(Value),
    /// With the schema as text: the request forces a tool already, or the model cannot be forced to
    /// call one, at all or because it thinks.
    Words,
}

impl Answer {
    /// Returns how `request` asks for its answer with this model.
    pub(super) fn of(request: &ChatRequest, settings: &Settings, thinks: bool) -> Answer {
        let Some(output) = &request.output else {
            return Answer::Free;
        };
        if settings.profile.answers == Answers::Schema
            && settings.option("output_config", "format").is_none()
            && let Some(schema) = closed(&output.schema)
        {
            return Answer::Schema(schema);
        }
        // A forced tool excludes thinking, and the arguments of a tool are an object.
        let free = settings.profile.forces && request.tool_choice == ToolChoice::Auto;
        let free = free
            && settings.option("tool_choice", "type").is_none()
            && settings.option("thinking", "type").is_none();
        tool(output, "input_schema").filter(|_| free && !thinks).map_or(Answer::Words, Answer::Tool)
    }

    /// Returns the tools of the request, and the answer tool if there is one.
    pub(super) fn beside<'a>(&self, tools: Option<Cow<'a, [u8]>>) -> Option<Cow<'a, [u8]>> {
        if let Answer::Tool(tool) = self { Some(with(tools, tool)) } else { tools }
    }
}
