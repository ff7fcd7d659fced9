//! Requests for an answer that matches a schema, with and without a field for it.

use std::borrow::Cow;

use loopwright_core::model::{ChatRequest, ToolChoice};
use serde_json::Value;

use super::profile::Answers;
use super::profile::Settings;
use crate::formats::encoding::answer_tool::{tool, with};
use crate::formats::encoding::schema::closed;
use crate::formats::encoding::wrapped_answer::of_object;

/// The form of the request for an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// No schema.
    Free,
    /// A schema, which the server enforces.
    Schema(Value),
    /// A call of this tool.
    Tool(Value),
    /// The schema as text. For requests that already force a tool, and for models that cannot be
    /// forced to call one, either at all or while they think.
    Words,
}

impl Answer {
    /// Returns the form in which `request` asks this model for its answer.
    pub(super) fn of(request: &ChatRequest, settings: &Settings, thinks: bool) -> Answer {
        let Some(output) = &request.output else {
            return Answer::Free;
        };
        if settings.profile.answers == Answers::Schema
            && settings.option("output_config", "format").is_none()
            && let Some(schema) = closed(&of_object(&output.schema))
        {
            return Answer::Schema(schema);
        }
        // A forced tool excludes thinking.
        let free = settings.profile.forces && request.tool_choice == ToolChoice::Auto;
        let free = free
            && settings.option("tool_choice", "type").is_none()
            && settings.option("thinking", "type").is_none();
        if free && !thinks { Answer::Tool(tool(output, "input_schema")) } else { Answer::Words }
    }

    /// Returns the tools of the request, plus the answer tool if there is one.
    pub(super) fn beside<'a>(&self, tools: Option<Cow<'a, [u8]>>) -> Option<Cow<'a, [u8]>> {
        if let Answer::Tool(tool) = self { Some(with(tools, tool)) } else { tools }
    }
}
