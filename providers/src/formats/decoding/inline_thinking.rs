//! Thinking that a server sends within the text: `<think>…</think>` at its start.

use std::mem::take;

use loopwright_core::model::BlockKind;

/// The tags around thinking.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];
/// The maximum length of a text that may still begin with thinking, in bytes.
const MAX_HELD_BYTES: usize = 256;

/// A splitter of the text of one reply.
#[derive(Debug, Default)]
pub(crate) struct InlineThinking {
    state: State,
    /// Text whose meaning is not certain yet.
    held: String,
    /// The tag before the thinking.
    tag: &'static str,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Start,
    /// Thinking until this tag. `true` if it has begun with more than blanks.
    Thinking(&'static str, bool),
    /// Blanks after thinking.
    Between,
    Text,
}

impl InlineThinking {
    /// Returns a splitter that takes everything as text.
    pub(crate) fn none() -> Self {
        InlineThinking { state: State::Text, ..InlineThinking::default() }
    }

    /// Returns whether all that follows is text.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Text)
    }

    /// Returns the tag before the thinking, or an empty string.
    pub(crate) fn tag(&self) -> &'static str {
        self.tag
    }

    /// Reads on. Emits what is certain.
    pub(crate) fn read(&mut self, text: &str, mut emit: impl FnMut(BlockKind, String)) {
        self.held.push_str(text);
        loop {
            match self.state {
                State::Start => {
                    let trimmed = self.held.trim_start();
                    let tag = TAGS.iter().find(|(open, _)| trimmed.starts_with(open));
                    let may_follow = TAGS.iter().any(|(open, _)| open.starts_with(trimmed));
                    if let Some((open, close)) = tag {
                        self.held = trimmed[open.len()..].to_owned();
                        self.state = State::Thinking(close, false);
                        self.tag = open;
                    } else if may_follow && self.held.len() <= MAX_HELD_BYTES {
                        return;
                    } else if has_only_the_end(&self.held) {
                        // The opening tag is a part of the prompt, and the reply arrives whole.
                        self.state = State::Thinking(TAGS[0].1, false);
                        self.tag = TAGS[0].0;
                    } else {
                        self.state = State::Text;
                    }
                }
                State::Thinking(close, has_begun) => {
                    if !has_begun {
                        self.held.drain(..self.held.len() - self.held.trim_start().len());
                        if self.held.is_empty() {
                            return;
                        }
                        self.state = State::Thinking(close, true);
                    }
                    let end = self.held.find(close);
                    let rest =
                        self.held.split_off(end.unwrap_or_else(|| certain(&self.held, close)));
                    let thinking = std::mem::replace(&mut self.held, rest);
                    if !thinking.is_empty() {
                        emit(BlockKind::Thinking, thinking);
                    }
                    if end.is_none() {
                        return;
                    }
                    self.held.drain(..close.len());
                    self.state = State::Between;
                }
                State::Between => {
                    self.held.drain(..self.held.len() - self.held.trim_start().len());
                    if self.held.is_empty() {
                        return;
                    }
                    self.state = State::Text;
                }
                State::Text => return emit(BlockKind::Text, take(&mut self.held)),
            }
        }
    }

    /// Ends the text. Returns what is held.
    pub(crate) fn end(&mut self) -> Option<(BlockKind, String)> {
        let held = take(&mut self.held);
        let kind = match std::mem::replace(&mut self.state, State::Text) {
            State::Thinking(..) => BlockKind::Thinking,
            _ => BlockKind::Text,
        };
        (!held.is_empty()).then_some((kind, held))
    }
}

/// Returns whether the text ends thinking that it does not begin.
fn has_only_the_end(text: &str) -> bool {
    let [(open, close), _] = TAGS;
    text.split_once(close).is_some_and(|(before, _)| !before.contains(open))
}

/// Returns the length of the text without a start of `tag` at its end.
fn certain(text: &str, tag: &str) -> usize {
    let longest = (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length]));
    text.len() - longest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the thinking and the text of a reply that arrives in these pieces.
    fn split(pieces: &[&str]) -> (String, String) {
        let (mut splitter, mut parts) = (InlineThinking::default(), Vec::new());
        for piece in pieces {
            splitter.read(piece, |kind, text| parts.push((kind, text)));
        }
        parts.extend(splitter.end());
        assert!(parts.iter().all(|(_, text)| !text.is_empty()));
        let all = |kind: BlockKind| -> String {
            parts.iter().filter(|part| part.0 == kind).map(|part| &*part.1).collect()
        };
        (all(BlockKind::Thinking), all(BlockKind::Text))
    }

    /// C454: Thinking in tags at the start of a text is thinking.
    #[test]
    fn thinking_at_the_start_is_split_off() {
        for (reply, thinking, text) in [
            ("<think>Hm.</think>\n\n42", "Hm.", "42"),
            ("\n<think>\nHm.\n</think>\n{\"a\":1}\n", "Hm.\n", "{\"a\":1}\n"),
            ("<thinking>a </think> b</thinking>c", "a </think> b", "c"),
            ("<think>\n\n</think>\n\nHi", "", "Hi"),
            ("<think>a < b </thin", "a < b </thin", ""),
            ("<think", "", "<think"),
            ("<thinker> 1", "", "<thinker> 1"),
            ("A <think>b</think>", "", "A <think>b</think>"),
            ("<think>a</think><think>b</think>", "a", "<think>b</think>"),
            ("", "", ""),
        ] {
            let expected = (thinking.to_owned(), text.to_owned());
            assert_eq!(split(&[reply]), expected);
            let letters: Vec<String> = reply.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(split(&letters), expected, "{reply}");
        }
        assert_eq!(split(&["Hm.\n</think>\n42"]), ("Hm.\n".into(), "42".into()));
        let blank = " ".repeat(1_000);
        assert_eq!(split(&[&blank]).1, blank);
    }
}
