//! Parser for incomplete JSON. For display only.

mod escape;

use std::mem;

use serde_json::{Map, Number, Value};

use escape::Escape;

/// Maximum nesting that is followed, the same as in `serde_json`.
const MAX_DEPTH: usize = 128;
/// Maximum total bytes of the keys on the path to the current value. Each delta walks the path.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum bytes of a number that is shown before it is complete.
const MAX_NUMBER_BYTES: usize = 64;

/// A parser of a tool call's arguments while they stream, for front ends that show incomplete
/// calls.
///
/// An incomplete string is shown without an incomplete escape or half a surrogate pair. An
/// incomplete number is shown without a trailing point or exponent, and an incomplete literal as
/// the value that it starts. A key without a value is left out. [`PartialJson::value`] returns
/// `None` for good if the text is invalid, nested deeper than 128 levels, or has over 4 KiB of keys
/// on the current path.
///
/// The time for all deltas of a call is proportional to its length, and [`PartialJson::value`]
/// takes constant time. The value is a preview: a call runs with the arguments of the complete
/// message.
///
/// ```
/// use loopwright_core::model::PartialJson;
/// use serde_json::json;
///
/// let mut arguments = PartialJson::new(); // one for each block of an `Update::ToolCall`
/// arguments.push(r#"{"path": "src/ma"#);
/// assert_eq!(arguments.value(), Some(&json!({"path": "src/ma"})));
/// arguments.push(r#"in.rs", "line": 1"#);
/// assert_eq!(arguments.value(), Some(&json!({"path": "src/main.rs", "line": 1})));
/// ```
#[derive(Debug, Clone, Default)]
pub struct PartialJson {
    root: Option<Value>,
    /// The open containers, outermost first.
    open: Vec<Open>,
    state: State,
    /// The fragment of a key, string or number that is not in the tree yet.
    token: String,
    escape: Escape,
    /// `true` if the tree contains the current or last value.
    placed: bool,
    #[cfg(test)]
    work: usize,
}

/// An open container.
#[derive(Debug, Clone)]
enum Open {
    Array,
    /// An object, with the key of the current or last value.
    Object(String),
}

/// The parser's state: the expected or unfinished token.
#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Value,
    /// A value or the end of the array comes next.
    FirstItem,
    /// A key or the end of the object comes next.
    FirstKey,
    NextKey,
    Key,
    Colon,
    Text,
    Number,
    /// A literal, with its missing rest.
    Word(&'static str),
    /// A value is complete.
    After,
    Broken,
}

impl PartialJson {
    /// Builds a parser that has read no text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next fragment of the text.
    pub fn push(&mut self, delta: &str) {
        let mut rest = delta;
        while !rest.is_empty() {
            let used = self.step(rest);
            rest = &rest[used..];
            self.count(used + 1);
        }
        match self.state {
            State::Text => self.show_text(),
            State::Number if self.token.len() <= MAX_NUMBER_BYTES => self.show_number(),
            _ => {}
        }
    }

    /// Returns the value so far; `None` before a value has started, or if the text is invalid.
    pub fn value(&self) -> Option<&Value> {
        self.root.as_ref()
    }

    /// Parses the beginning of `rest` and returns the number of bytes parsed.
    fn step(&mut self, rest: &str) -> usize {
        match self.state {
            State::Broken => rest.len(),
            State::Key | State::Text => self.string(rest),
            State::Number => {
                let digits = |c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E');
                let end = rest.find(digits).unwrap_or(rest.len());
                self.token.push_str(&rest[..end]);
                if end < rest.len() {
                    self.end_number();
                }
                end
            }
            State::Word(word) => {
                let same = rest.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
                match &word[same..] {
                    "" => self.state = State::After,
                    left if same == rest.len() => self.state = State::Word(left),
                    _ => self.give_up(),
                }
                same
            }
            _ => match rest.find(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
                Some(0) => {
                    self.sign(rest.as_bytes()[0]);
                    rest.chars().next().map_or(1, char::len_utf8)
                }
                Some(blanks) => blanks,
                None => rest.len(),
            },
        }
    }

    /// Parses one character outside of strings, numbers and literals.
    fn sign(&mut self, sign: u8) {
        match (self.state, sign) {
            (State::Value | State::FirstItem, b'"') => {
                self.begin(Value::String(String::new()), State::Text)
            }
            (State::Value | State::FirstItem, b'{') => {
                self.enter(Value::Object(Map::new()), State::FirstKey)
            }
            (State::Value | State::FirstItem, b'[') => {
                self.enter(Value::Array(Vec::new()), State::FirstItem)
            }
            (State::Value | State::FirstItem, b't') => {
                self.begin(Value::Bool(true), State::Word("rue"))
            }
            (State::Value | State::FirstItem, b'f') => {
                self.begin(Value::Bool(false), State::Word("alse"))
            }
            (State::Value | State::FirstItem, b'n') => self.begin(Value::Null, State::Word("ull")),
            (State::Value | State::FirstItem, b'-' | b'0'..=b'9') => {
                self.placed = false;
                self.token.push(char::from(sign));
                self.state = State::Number;
            }
            (State::FirstKey | State::NextKey, b'"') => self.state = State::Key,
            (State::Colon, b':') => self.state = State::Value,
            (State::FirstItem, b']') | (State::FirstKey, b'}') => self.leave(),
            (State::After, sign) => match (self.open.last(), sign) {
                (Some(Open::Array), b',') => self.state = State::Value,
                (Some(Open::Object(_)), b',') => self.state = State::NextKey,
                (Some(Open::Array), b']') | (Some(Open::Object(_)), b'}') => self.leave(),
                _ => self.give_up(),
            },
            _ => self.give_up(),
        }
    }

    /// Parses a fragment of a key or a string.
    fn string(&mut self, rest: &str) -> usize {
        if !self.escape.is_open() {
            let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
            if plain > 0 {
                self.escape.settle(&mut self.token);
                self.token.push_str(&rest[..plain]);
                return plain;
            }
            if rest.starts_with('"') {
                self.escape.settle(&mut self.token);
                self.end_string();
                return 1;
            }
        }
        let Some(next) = rest.chars().next() else {
            return 0;
        };
        if !self.escape.take(next, &mut self.token) {
            self.give_up();
        }
        next.len_utf8()
    }

    fn end_string(&mut self) {
        if let State::Text = self.state {
            self.show_text();
            self.state = State::After;
            return;
        }
        let key = mem::take(&mut self.token);
        if let Some(open) = self.open.last_mut() {
            *open = Open::Object(key);
        }
        let way: usize = self
            .open
            .iter()
            .map(|open| if let Open::Object(key) = open { key.len() } else { 0 })
            .sum();
        self.count(self.open.len());
        if way > MAX_PATH_BYTES { self.give_up() } else { self.state = State::Colon }
    }

    fn end_number(&mut self) {
        match self.token.parse::<Number>() {
            Ok(number) => {
                self.put(Value::Number(number));
                self.token.clear();
                self.state = State::After;
            }
            Err(_) => self.give_up(),
        }
    }

    // ---- the tree ------------------------------------------------------------------------------

    fn begin(&mut self, value: Value, state: State) {
        self.placed = false;
        self.put(value);
        self.state = state;
    }

    fn enter(&mut self, container: Value, state: State) {
        if self.open.len() == MAX_DEPTH {
            return self.give_up();
        }
        let open = if container.is_array() { Open::Array } else { Open::Object(String::new()) };
        self.begin(container, state);
        self.open.push(open);
    }

    fn leave(&mut self) {
        self.open.pop();
        self.state = State::After;
    }

    /// Appends the pending text to the string in the tree.
    fn show_text(&mut self) {
        self.count(self.open.len());
        if let Some(Value::String(text)) = inner(&mut self.root, &self.open) {
            text.push_str(&self.token);
        }
        self.token.clear();
    }

    fn show_number(&mut self) {
        self.count(self.token.len());
        let number = self
            .token
            .parse()
            .or_else(|_| self.token.trim_end_matches(['e', 'E', '+', '-', '.']).parse());
        if let Ok(number) = number {
            self.put(Value::Number(number));
        }
    }

    /// Adds the current value to the tree, or replaces it.
    fn put(&mut self, value: Value) {
        self.count(self.open.len());
        let placed = mem::replace(&mut self.placed, true);
        let Some((last, outer)) = self.open.split_last() else {
            self.root = Some(value);
            return;
        };
        match (inner(&mut self.root, outer), last) {
            (Some(Value::Array(list)), Open::Array) => {
                if placed {
                    list.pop();
                }
                list.push(value);
            }
            (Some(Value::Object(map)), Open::Object(key)) => drop(map.insert(key.clone(), value)),
            _ => {}
        }
    }

    fn give_up(&mut self) {
        self.root = None;
        self.open.clear();
        self.token.clear();
        self.state = State::Broken;
    }

    /// Counts steps for tests, which cannot rely on measured time.
    #[cfg(test)]
    fn count(&mut self, steps: usize) {
        self.work += steps;
    }

    #[cfg(not(test))]
    fn count(&mut self, _: usize) {}
}

/// Returns the value at the path through the open containers.
fn inner<'a>(root: &'a mut Option<Value>, way: &[Open]) -> Option<&'a mut Value> {
    way.iter().try_fold(root.as_mut()?, |at, open| match (at, open) {
        (Value::Array(list), Open::Array) => list.last_mut(),
        (Value::Object(map), Open::Object(key)) => map.get_mut(key),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(deltas: &[&str]) -> PartialJson {
        let mut partial = PartialJson::new();
        deltas.iter().for_each(|delta| partial.push(delta));
        partial
    }

    #[test]
    fn it_shows_what_is_certain_and_holds_back_what_is_not() {
        let cases = [
            (r#"{"a": "b"#, json!({"a": "b"})),
            (r#"{"a": "b\"#, json!({"a": "b"})),
            (r#"{"a": 1, "b"#, json!({"a": 1})),
            (r#"{"a": 1, "b": -"#, json!({"a": 1})),
            (r#"{"a": [1, -2.5e"#, json!({"a": [1, -2.5]})),
            (r#"[{"a": {}}, tr"#, json!([{"a": {}}, true])),
            (r#"{"a": 1, "a": [2"#, json!({"a": [2]})),
            (r#""\ud83d\ude00 \ud83d"#, json!("😀 ")),
            (r#""\ud83d-\ude00\ud83d""#, json!("\u{fffd}-\u{fffd}\u{fffd}")),
            ("\"line\nbreak \\u00e9", json!("line\nbreak é")),
        ];
        for (text, shown) in cases {
            assert_eq!(of(&[text]).value(), Some(&shown), "{text}");
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(of(&letters).value(), Some(&shown), "{text}, letter by letter");
        }
    }

    #[test]
    fn a_complete_text_is_what_serde_json_makes_of_it() {
        let text = concat!(
            r#" {"a" : [ ] , "b":[{},[[-0.5e-3,12345678901234567890]],"\t\/\u0041é"],"#,
            r#""c":{"d":null,"e":false}} "#
        );
        let whole: Value = serde_json::from_str(text).unwrap();
        for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            assert_eq!(of(&[&text[..cut], &text[cut..]]).value(), Some(&whole), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_json_shows_nothing_any_more() {
        for text in [
            "a",
            "{0",
            "--",
            r#"{"a":1}}"#,
            "[1,,",
            "[1}",
            r#"{"a",1}"#,
            "nulL",
            "[01,",
            r#""\x"#,
            "[\u{a0}",
        ] {
            let mut partial = of(&[text]);
            assert_eq!(partial.value(), None, "{text}");
            partial.push(r#"{"a": 1}"#);
            assert_eq!(partial.value(), None, "{text}");
        }
        let of_long_keys = |bytes| of(&[&format!(r#"{{"a":{{"{}":1"#, "k".repeat(bytes))]);
        assert!(of_long_keys(MAX_PATH_BYTES - 1).value().is_some());
        assert_eq!(of_long_keys(MAX_PATH_BYTES).value(), None);
        assert!(of(&["[".repeat(MAX_DEPTH).as_str()]).value().is_some());
        assert_eq!(of(&["[".repeat(MAX_DEPTH + 1).as_str()]).value(), None);
    }

    /// The work is proportional to the length of the text, regardless of its fragments and content.
    #[test]
    fn a_megabyte_in_deltas_of_one_byte_costs_a_few_steps_each() {
        let size = 1 << 20;
        let texts = [
            format!(r#"{{"content": "{}"#, "x".repeat(size)),
            format!(r#"{{"content": "{}"#, "\\n".repeat(size / 2)),
            format!("[{}", "1,".repeat(size / 2)),
            format!("[{}", "7".repeat(size)),
            format!("[{}", "{\"a\":[{}]},".repeat(size / 11)),
            "[".repeat(size),
            format!(r#"{{"{}"#, "k".repeat(size)),
        ];
        for text in &texts {
            let mut partial = PartialJson::new();
            for at in 0..text.len() {
                partial.push(&text[at..=at]);
            }
            assert!(
                partial.work <= 8 * text.len(),
                "{} steps for {} bytes",
                partial.work,
                text.len()
            );
        }
    }
}
