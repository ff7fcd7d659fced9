//! An answer that a tool takes: for models that have no field for the schema of an answer.

use std::borrow::Cow;

use loopwright_core::model::OutputSchema;
use serde_json::{Value, json};

use crate::json::bytes;
use crate::schema::parameters;

/// Begins the name of the tool that takes the answer. Its call is no call to anybody else, but the
/// reply's text.
const TOOL: &str = "loopwright_answer_";

/// The tool that takes the answer, its parameters in the field of this name. None if the answer is
/// no object, which a tool's arguments are.
pub(crate) fn tool(output: &OutputSchema, field: &str) -> Option<Value> {
    if output.schema["type"] != "object" {
        return None;
    }
    let name: String = format!("{TOOL}{}", output.name).chars().take(64).collect();
    let description =
        "Gives the final answer. Call it once, alone, when nothing else is left to do.";
    Some(json!({"name": name, "description": description, (field): *parameters(&output.schema)}))
}

/// Whether a call is no call, but the answer.
pub(crate) fn is_answer(tool: &str) -> bool {
    tool.starts_with(TOOL)
}

/// A list of tools, which is JSON already, with one more.
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
