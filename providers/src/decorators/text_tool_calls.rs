//! Tool calls that a model writes as text. Small local models do so if the server's template does
//! not parse them.

use std::collections::BTreeSet;

use loopwright_core::hooks::{HookContext, TextAction, TextPart};
use serde_json::{Map, Value};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// Returns a hook for [`on_text_part`](loopwright_core::AgentBuilder::on_text_part) that turns
/// calls written as text into calls. Such a call is JSON with the name of one of these `tools` and
/// its arguments, alone or between `<tool_call>` tags.
///
/// Other text stays text, as does JSON with the name of another tool. A possible call is held back
/// until the text is complete, so a model that answers in JSON does not stream. Use the hook only
/// for models that need it.
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_patterns::PiPattern;
/// use loopwright_providers::{Offline, parse_text_tool_calls};
///
/// let agent = GenericAgent::builder(Offline::new(), PiPattern)
///     .on_text_part(parse_text_tool_calls(["read_file"]))
///     .build()?;
/// # Ok::<(), loopwright_core::agent::AgentError>(())
/// ```
pub fn parse_text_tool_calls<S: Into<String>>(
    tools: impl IntoIterator<Item = S>,
) -> impl Fn(&HookContext, TextPart<'_>) -> TextAction + Send + Sync + 'static {
    let tools: BTreeSet<String> = tools.into_iter().map(Into::into).collect();
    move |_, part| {
        if !may_call(part.text) {
            return TextAction::Show;
        }
        if !part.last {
            return TextAction::Hold;
        }
        match read(part.text, &tools) {
            Some((text, calls)) => TextAction::Calls { text, calls },
            None => TextAction::Show,
        }
    }
}

/// Returns whether the text contains a possible call, or ends with the start of a call.
fn may_call(text: &str) -> bool {
    let begins = |at: usize| text.ends_with(&OPEN[..at]);
    let start = text.trim_start();
    start.is_empty()
        || start.starts_with(['{', '[', '`'])
        || text.contains(OPEN)
        || (1..OPEN.len()).any(begins)
}

/// Returns the text around the calls, and the calls.
fn read(text: &str, tools: &BTreeSet<String>) -> Option<(String, Vec<(String, String)>)> {
    let (mut around, mut calls) = (String::new(), Vec::new());
    let Some((before, mut rest)) = text.split_once(OPEN) else {
        return Some((around, calls_of(unfenced(text), tools)?));
    };
    around.push_str(before.trim_end());
    loop {
        let (inner, after) = rest.split_once(CLOSE).unwrap_or((rest, ""));
        calls.append(&mut calls_of(inner.trim(), tools)?);
        let Some((between, next)) = after.split_once(OPEN) else {
            around.push_str(after.trim_end());
            return Some((around, calls));
        };
        around.push_str(between.trim_end());
        rest = next;
    }
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

/// Parses one call or a list of calls. Returns `None` for anything else.
fn calls_of(json: &str, tools: &BTreeSet<String>) -> Option<Vec<(String, String)>> {
    match serde_json::from_str(json).ok()? {
        Value::Object(call) => Some(vec![call_of(&call, tools)?]),
        Value::Array(list) if !list.is_empty() => {
            list.iter().map(|call| call_of(call.as_object()?, tools)).collect()
        }
        _ => None,
    }
}

fn call_of(call: &Map<String, Value>, tools: &BTreeSet<String>) -> Option<(String, String)> {
    let name = call.get("name")?.as_str().filter(|name| tools.contains(*name))?;
    let arguments = call.get("arguments").or_else(|| call.get("parameters"))?;
    let arguments = match arguments {
        Value::String(text) => text.clone(), // JSON in JSON, as in the API
        Value::Object(_) => arguments.to_string(),
        _ => return None,
    };
    (call.len() == 2).then(|| (name.to_owned(), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Vec<(String, String)>)> {
        read(text, &BTreeSet::from(["f".to_owned(), "g".to_owned()]))
    }

    #[test]
    fn calls_are_parsed_between_tags_and_alone() {
        let f = |arguments: &str| ("f".to_owned(), arguments.to_owned());
        let call = r#"{"name": "f", "arguments": {"a": 1}}"#;
        let one = Some((String::new(), vec![f(r#"{"a":1}"#)]));
        assert_eq!(parsed(call), one);
        assert_eq!(parsed(&format!("```json\n{call}\n```")), one);
        assert_eq!(parsed(&format!("<tool_call>\n{call}\n</tool_call>")), one);
        assert_eq!(parsed(&format!("<tool_call>{call}")), one, "the end may be missing");
        let two = format!("I look.\n<tool_call>{call}</tool_call>\n<tool_call>{call}</tool_call>");
        assert_eq!(parsed(&two), Some(("I look.".into(), vec![f(r#"{"a":1}"#); 2])));
        assert_eq!(
            parsed(r#"[{"name":"f","parameters":"{}"}]"#),
            Some((String::new(), vec![f("{}")]))
        );
    }

    #[test]
    fn nothing_is_guessed() {
        for text in [
            "hello",
            r#"{"name": "Ada", "arguments": {}}"#,
            r#"{"name": "f", "arguments": {}, "age": 3}"#,
            r#"{"name": "f", "arguments": 3}"#,
            r#"<tool_call>{"name": "f", "arguments": {"a": </tool_call>"#,
            r#"<tool_call>{"name": "f", "arguments": {}}</tool_call> <tool_call>g()</tool_call>"#,
            "[]",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_may_be_a_call_is_held() {
        for text in ["{", " <tool", "Well. <tool_call>{", "``"] {
            assert!(may_call(text), "{text}");
        }
        for text in ["Well. ", "a < b", "The list: [1]"] {
            assert!(!may_call(text), "{text}");
        }
    }
}
