//! Answers that are no object. Servers take only schemas of objects, so the answer is asked for as
//! the property of one, and taken out of it while it streams.

use std::mem::take;

use loopwright_core::json_schema::{in_property, is_object, normalize};
use loopwright_core::model::{BlockKind, ChatRequest, ModelEvent};
use serde_json::Value;

/// The property that has the answer. No schema of a user is expected to have it.
const PROPERTY: &str = "loopwright_answer";
/// The maximum length of a text that may still become a wrapped answer, in bytes.
const MAX_HELD_BYTES: usize = 256;

/// Returns an output schema as the schema of an object.
pub(crate) fn of_object(schema: &Value) -> Value {
    let schema = normalize(schema.clone());
    if is_object(&schema) { schema } else { in_property(schema, PROPERTY) }
}

/// Returns whether the answer to a request may be wrapped.
pub(crate) fn may_be_wrapped(request: &ChatRequest) -> bool {
    request.output.as_ref().is_some_and(|output| !is_object(&output.schema))
}

/// Takes an answer out of its object. Other texts pass, such as the answer of a server that has
/// read the schema itself.
#[derive(Debug, Default)]
pub(crate) struct Unwrap {
    state: State,
    /// The block whose text is held.
    block: u32,
    /// The text before the answer, while it is not certain that there is one.
    held: String,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Before,
    Within(Extent),
    /// The rest of the object, and what is after it, is left out.
    After,
    /// The text is no wrapped answer.
    Other,
}

impl Unwrap {
    /// Returns the events instead of one event.
    pub(crate) fn take(&mut self, event: ModelEvent) -> impl Iterator<Item = ModelEvent> + use<> {
        let mut before = None;
        let event = match event {
            ModelEvent::BlockStart { block, kind: BlockKind::Text } => {
                before = self.flush();
                self.block = block;
                Some(ModelEvent::BlockStart { block, kind: BlockKind::Text })
            }
            ModelEvent::Delta { block, delta } if block == self.block => {
                let delta = self.text(delta);
                (!delta.is_empty()).then_some(ModelEvent::Delta { block, delta })
            }
            ModelEvent::BlockEnd { block, signature } => {
                before = if block == self.block { self.flush() } else { None };
                Some(ModelEvent::BlockEnd { block, signature })
            }
            ModelEvent::Withdrawn => {
                *self = Unwrap::default();
                Some(ModelEvent::Withdrawn)
            }
            event => Some(event),
        };
        before.into_iter().chain(event)
    }

    /// Returns the part of a text that belongs to the answer.
    fn text(&mut self, text: String) -> String {
        match &mut self.state {
            State::Other => text,
            State::After => String::new(),
            State::Within(extent) => {
                let (end, is_over) = extent.read(&text);
                if is_over {
                    self.state = State::After;
                }
                text[..end].to_owned()
            }
            State::Before => {
                self.held.push_str(&text);
                match start(&self.held) {
                    Start::Unknown if self.held.len() <= MAX_HELD_BYTES => return String::new(),
                    Start::Wrapped(length) => {
                        self.state = State::Within(Extent::default());
                        let answer = self.held.split_off(length);
                        self.held.clear();
                        return self.text(answer);
                    }
                    Start::Unknown | Start::Other => self.state = State::Other,
                }
                take(&mut self.held)
            }
        }
    }

    /// Returns the text that is held at the end of its block.
    fn flush(&mut self) -> Option<ModelEvent> {
        let delta = take(&mut self.held);
        (!delta.is_empty()).then_some(ModelEvent::Delta { block: self.block, delta })
    }
}

/// The start of a text.
enum Start {
    Unknown,
    Other,
    /// An object around the answer, which begins after so many bytes.
    Wrapped(usize),
}

fn start(text: &str) -> Start {
    let mut left = text.trim_start();
    if "```".starts_with(left) {
        return Start::Unknown;
    }
    if let Some(fenced) = left.strip_prefix("```") {
        left = fenced.strip_prefix("json").unwrap_or(fenced).trim_start();
    }
    for part in ["{", &format!("\"{PROPERTY}\""), ":"] {
        match left.strip_prefix(part) {
            Some(rest) => left = rest.trim_start(),
            None if part.starts_with(left) || "json".starts_with(left) => return Start::Unknown,
            None => return Start::Other,
        }
    }
    if left.is_empty() { Start::Unknown } else { Start::Wrapped(text.len() - left.len()) }
}

/// A reader that finds the end of one JSON value.
#[derive(Debug, Default)]
struct Extent {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Extent {
    /// Reads on. Returns the length of what belongs to the value, and whether it is over.
    fn read(&mut self, text: &str) -> (usize, bool) {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'[' | b'{' => self.depth += 1,
                b'}' | b',' if self.depth == 0 => return (at, true),
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        (text.len(), false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta(block: u32, delta: &str) -> ModelEvent {
        ModelEvent::Delta { block, delta: delta.into() }
    }

    fn of(block: u32, kind: BlockKind, deltas: &[&str]) -> Vec<ModelEvent> {
        let mut events = vec![ModelEvent::BlockStart { block, kind }];
        events.extend(deltas.iter().map(|text| delta(block, text)));
        events.push(ModelEvent::BlockEnd { block, signature: None });
        events
    }

    /// Returns the texts that pass.
    fn pass(events: Vec<ModelEvent>) -> Vec<String> {
        let mut unwrap = Unwrap::default();
        let passed = events.into_iter().flat_map(|event| unwrap.take(event));
        let deltas = passed.filter_map(|event| match event {
            ModelEvent::Delta { delta, .. } => Some(delta),
            _ => None,
        });
        deltas.collect()
    }

    /// Returns the text that passes, if it arrives whole and in letters.
    fn pass_text(text: &str) -> String {
        let whole = pass(of(0, BlockKind::Text, &[text])).concat();
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(pass(of(0, BlockKind::Text, &letters)).concat(), whole);
        whole
    }

    /// C450: An answer that is not an object is requested in one, and streams without it.
    #[test]
    fn a_wrapped_answer_is_taken_out() {
        for (text, answer) in [
            (r#"{"loopwright_answer":[1,2]}"#, "[1,2]"),
            ("\n{ \"loopwright_answer\" : {\"a\":{}}\n}\n", "{\"a\":{}}\n"),
            (r#"{"loopwright_answer":"} \"}, "}"#, r#""} \"}, ""#),
            (r#"{"loopwright_answer":7,"note":"x"}"#, "7"),
            (r#"{"loopwright_answer":[1],"note":"x"}"#, "[1]"),
            ("```json\n{\"loopwright_answer\":[1]}\n```", "[1]"),
            ("```\n{\"loopwright_answer\":[1]}\n```", "[1]"),
            (r#"{"loopwright_answer":{"a":1}"#, r#"{"a":1}"#),
            (r#"{"loopwright_answer":"a}"#, r#""a}"#),
        ] {
            assert_eq!(pass_text(text), answer, "{text}");
        }
        let pieces = ["{\"loopwright_ans", "wer\": ", "[1,", "2", "]}"];
        assert_eq!(
            pass(of(0, BlockKind::Text, &pieces)),
            ["[1,", "2", "]"],
            "nothing is held back"
        );
    }

    #[test]
    fn other_texts_pass() {
        let blank = " ".repeat(1_000);
        for text in [
            "[1]",
            "{}",
            "{",
            "{\"a\": 1}",
            r#"{"loopwright_ans"#,
            "",
            r#"{"loopwright_answers":1}"#,
            "```",
            "json",
            &blank,
        ] {
            assert_eq!(pass_text(text), text);
        }
        let wrapped = r#"{"loopwright_answer":1}"#;
        assert_eq!(pass(of(7, BlockKind::Thinking, &[wrapped])), [wrapped]);
    }

    #[test]
    fn an_answer_may_go_on_in_a_later_block_and_begin_again() {
        let mut events = of(0, BlockKind::Text, &["{\"loopwright_answer\":[1,"]);
        events.extend(of(1, BlockKind::Thinking, &["Hm."]));
        events.extend(of(2, BlockKind::Text, &["2]}"]));
        assert_eq!(pass(events), ["[1,", "Hm.", "2]"]);
        let mut events = vec![ModelEvent::BlockStart { block: 0, kind: BlockKind::Text }];
        events.extend([delta(0, "{\"loopwright_answer\":[1,"), ModelEvent::Withdrawn]);
        events.extend(of(0, BlockKind::Text, &["{\"loopwright_answer\":2}"]));
        assert_eq!(pass(events), ["[1,", "2"]);
    }

    #[test]
    fn only_a_root_that_is_no_object_is_wrapped() {
        let object = json!({"type": "object"});
        assert_eq!(of_object(&object), object);
        for schema in
            [json!({"type": "array"}), json!({"type": "object", "anyOf": [{}]}), json!(true)]
        {
            assert_eq!(of_object(&schema)["properties"][PROPERTY], schema);
        }
    }
}
