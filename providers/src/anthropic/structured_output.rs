//! How a model is asked for an answer that fits a schema, where it has a field for that and where
//! it has none.

use std::borrow::Cow;

use loopwright_core::model::{ChatRequest, ToolChoice};
use serde_json::Value;

use super::profile::Answers;
use super::profile::Settings;
use crate::answer_tool::{tool, with};
use crate::schema::closed;

/// What is asked of the answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Nothing.
    Free,
    /// That it fits this schema, which the server sees to.
    Schema(Value),
    /// That it is a call of this tool.
    Tool(Value),
    /// That it fits the schema, in words: the request forces a tool already, or the model cannot be
    /// forced to call one, at all or because it thinks.
    Words,
}

impl Answer {
    /// What `request` asks for, as far as the model can be told.
    pub(super) fn of(request: &ChatRequest, settings: &Settings, thinks: bool) -> Answer {
        let Some(output) = &request.output else {
            return Answer::Free;
        };
        let own = |name| settings.options.contains_key(name);
        if settings.profile.answers == Answers::Schema
            && !own("output_config")
            && let Some(schema) = closed(&output.schema)
        {
            return Answer::Schema(schema);
        }
        // A forced tool excludes thinking, and a tool takes an object.
        let free = settings.profile.forces && request.tool_choice == ToolChoice::Auto;
        let free = free && !own("tool_choice") && !own("thinking");
        tool(output, "input_schema").filter(|_| free && !thinks).map_or(Answer::Words, Answer::Tool)
    }

    /// The tools of the request, and the answer's own.
    pub(super) fn beside<'a>(&self, tools: Option<Cow<'a, [u8]>>) -> Option<Cow<'a, [u8]>> {
        if let Answer::Tool(tool) = self { Some(with(tools, tool)) } else { tools }
    }
}
