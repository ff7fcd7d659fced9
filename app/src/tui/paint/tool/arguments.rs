//! The complete arguments of a call, for the user who decides about it.

use ratatui::text::Line;
use serde_json::Value;

use super::super::code::Code;
use super::super::diff::replacement;
use super::super::flow::{Break, Flow};
use super::super::highlight::Highlighter;
use super::super::theme::Theme;

/// Lays out each argument by name: text of several lines as a block, highlighted if its language is
/// known; the texts of an edit as a diff; everything else as JSON.
pub(crate) fn arguments(
    name: &str,
    arguments: &Value,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let Value::Object(named) = arguments else {
        return pair("", &arguments.to_string(), width, theme);
    };
    let text = |name: &str| named.get(name).and_then(Value::as_str);
    let edit = if name == "edit_file" { text("old_string").zip(text("new_string")) } else { None };
    let mut lines = Vec::new();
    // The path comes first, whatever the order.
    let path = named.get_key_value("path");
    for (key, value) in path.into_iter().chain(named.iter().filter(|(key, _)| *key != "path")) {
        match (key.as_str(), value) {
            ("new_string", _) if edit.is_some() => {}
            ("old_string", _) if let Some((old, new)) = edit => {
                lines.extend(pair("change", "", width, theme));
                lines.extend(replacement(old, new, width, theme));
            }
            (key, Value::String(text)) if key == "command" || text.trim_end().contains('\n') => {
                lines.extend(pair(key, "", width, theme));
                lines.extend(block(text, highlighter(key, named.get("path")), width, theme));
            }
            (key, Value::String(text)) => lines.extend(pair(key, text, width, theme)),
            (key, value) => lines.extend(pair(key, &value.to_string(), width, theme)),
        }
    }
    lines
}

/// Lays out the content that a call writes into a file.
pub(super) fn content(arguments: &Value, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let content = arguments.get("content").and_then(Value::as_str).unwrap_or_default();
    block(content, highlighter("content", arguments.get("path")), width, theme)
}

fn highlighter(key: &str, path: Option<&Value>) -> Highlighter {
    match path.and_then(Value::as_str) {
        _ if key == "command" => Highlighter::new("sh"),
        Some(path) => Highlighter::of_file(path),
        None => Highlighter::new(""),
    }
}

fn block(text: &str, highlighter: Highlighter, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut code = Code::new(width.max(1).into(), highlighter);
    let mut lines = Vec::new();
    // Carriage returns are shown: they would be written too.
    text.split_terminator('\n').for_each(|line| code.line(line, theme, &mut lines));
    lines
}

fn pair(key: &str, value: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut flow = Flow::new(width.into(), Break::Words);
    if !key.is_empty() {
        flow.push(&format!("{key}: "), theme.dim);
    }
    flow.push(value, theme.text);
    flow.finish().into_iter().map(Line::from).collect()
}
