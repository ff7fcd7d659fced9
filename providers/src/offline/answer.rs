//! Answers of the rules: after tool results, or when there is nothing to call.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_core::excerpt;
use loopwright_core::message::{ResultStatus, ToolResult};
use loopwright_core::tool::ToolSpec;
use serde_json::Value;

use super::words::{Filler, Words};

/// The maximum number of quoted lines, and of characters in each.
const MAX_LINES: usize = 5;
const MAX_LINE_CHARS: usize = 160;

/// Keys of the lines that summarise a manifest.
const SUMMARY_KEYS: &[&str] = &["name", "description", "title"];

/// A tool's result and the path of its call.
pub(super) struct Outcome<'m> {
    result: &'m ToolResult,
    text: String,
    /// The path argument of the call, if it has one.
    path: Option<String>,
}

impl<'m> Outcome<'m> {
    /// Returns the result of a call with these arguments.
    pub(super) fn new(result: &'m ToolResult, arguments: Option<&str>) -> Self {
        let arguments: Option<Value> = arguments.and_then(|text| serde_json::from_str(text).ok());
        let path =
            arguments.and_then(|a| Some(a.get("path").or(a.get("file"))?.as_str()?.to_owned()));
        Outcome { result, text: result.text(), path }
    }

    fn summary(&self) -> String {
        let tool = match &self.path {
            Some(path) => format!("`{}` of `{path}`", self.result.name),
            None => format!("`{}`", self.result.name),
        };
        let why =
            self.text.lines().find(|line| !line.trim().is_empty()).map(cut).unwrap_or_default();
        match self.result.status {
            ResultStatus::Ok => self.quoted(),
            ResultStatus::Denied => format!("{tool} was denied: {why}"),
            ResultStatus::Skipped | ResultStatus::Aborted => {
                format!("{tool} did not run to its end: {why}")
            }
            _ => format!("{tool} failed: {why}"),
        }
    }

    fn quoted(&self) -> String {
        let name = self.path.as_deref().unwrap_or(&self.result.name);
        let lines: Vec<&str> = self
            .text
            .lines()
            .map(unnumbered)
            .filter(|line| line.contains(char::is_alphanumeric))
            .collect();
        let is_summary = |line: &&&str| {
            let key = line.split(['=', ':']).next().unwrap_or("").trim().trim_matches('"');
            line.contains(['=', ':']) && SUMMARY_KEYS.contains(&key)
        };
        let summary: Vec<_> =
            lines.iter().filter(is_summary).take(MAX_LINES).map(|line| cut(line.trim())).collect();
        match lines.as_slice() {
            _ if !summary.is_empty() => format!("`{name}` says: {}.", summary.join(", ")),
            [] => format!("`{name}`: there is no text in the result."),
            [line] => format!("`{name}` says: {}", cut(line.trim())),
            _ => {
                let quote: String =
                    lines.iter().take(MAX_LINES).map(|line| format!("\n> {}", cut(line))).collect();
                let more = lines.len().saturating_sub(MAX_LINES);
                let more = if more > 0 { format!("\n({more} more lines)") } else { String::new() };
                format!("`{name}` says:{quote}{more}")
            }
        }
    }
}

/// Returns an answer that quotes the tool results.
pub(super) fn quoting(outcomes: &[Outcome<'_>]) -> String {
    let summary: Vec<String> = outcomes.iter().map(Outcome::summary).collect();
    format!(
        "{}\n\n(Quoted by offline rules, which are not a language model.)",
        summary.join("\n\n")
    )
}

/// Returns a description of the model and of how to configure another one.
pub(super) fn introduction(tools: &[Arc<ToolSpec>]) -> String {
    let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
    let can = if names.is_empty() {
        "There are no tools that I could call.".to_owned()
    } else {
        format!("Name a file or a tool, and I call it: {}.", names.join(", "))
    };
    format!(
        "I am a set of offline rules, not a language model. {can} For a real model, set \
         OPENAI_API_KEY or another provider's key, or start a local server such as Ollama, and \
         name a model as PROVIDER/NAME instead of `offline` (in the binary with --model)."
    )
}

/// Returns a value that matches a simple `schema`, built from the prompt and the results.
pub(super) fn fitting(schema: &Value, prompt: &str, outcomes: &[Outcome<'_>]) -> Value {
    let good = outcomes.iter().filter(|outcome| !outcome.result.is_error());
    let facts: Vec<&str> = good.map(|outcome| outcome.text.as_str()).collect();
    let (words, facts) = (Words::of(prompt), facts.join("\n"));
    let mut filler = Filler::new(&words);
    filler.facts = &facts;
    filler.fill("answer", schema, schema)
}

/// Returns a line without the line number that a tool added.
fn unnumbered(line: &str) -> &str {
    let text = line.trim_start();
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match after.strip_prefix(['\t', '|', '→', ':']) {
        Some(rest) if after.len() < text.len() => rest,
        _ => line,
    }
}

fn cut(line: &str) -> Cow<'_, str> {
    excerpt::chars(line.trim_end(), MAX_LINE_CHARS)
}
