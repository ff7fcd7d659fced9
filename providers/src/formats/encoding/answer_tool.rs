//! A tool that takes the answer, for models without a field for the output schema.

use std::borrow::Cow;

use loopwright_core::json_schema::parameters;
use loopwright_core::model::OutputSchema;
use serde_json::{Value, json};

use super::json::bytes;
use super::wrapped_answer::of_object;

/// Prefix of the tool's name. Its call becomes the text of the reply.
const TOOL: &str = "loopwright_answer_";

/// Returns the answer tool, with its parameters in `field`.
pub(crate) fn tool(output: &OutputSchema, field: &str) -> Value {
    let name: String = format!("{TOOL}{}", output.name).chars().take(64).collect();
    let description =
        "Gives the final answer. Call it once, alone, when nothing else is left to do.";
    let parameters = parameters(&of_object(&output.schema));
    json!({"name": name, "description": description, (field): parameters})
}

/// Returns whether a call is the answer.
pub(crate) fn is_answer(tool: &str) -> bool {
    tool.starts_with(TOOL)
}

/// Adds a tool to an encoded list of tools.
pub(crate) fn with<'a>(tools: Option<Cow<'a, [u8]>>, tool: &Value) -> Cow<'a, [u8]> {
    let mut list = tools.map_or_else(|| b"[]".to_vec(), Cow::into_owned);
    list.pop();
    if list.len() > 1 {
        list.push(b',');
    }
    list.extend_from_slice(&bytes(tool));
    list.push(b']');
    list.into()
}
