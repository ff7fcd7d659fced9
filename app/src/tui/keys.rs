//! [`Keys`]: the input of the terminal, in which an escape sequence that arrives in two reads is
//! still one key.
//!
//! Alt+Enter is the bytes ESC and CR, and an arrow is ESC, `[`, `D`. Over a slow connection, the
//! ESC may arrive alone, which reads as the key that interrupts the agent.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, timeout_at};

/// The time that Esc waits for the rest of a sequence.
const WAIT: Duration = Duration::from_millis(50);
/// The same over SSH.
const SSH_WAIT: Duration = Duration::from_millis(100);
/// The maximum length of a sequence, in characters.
const MAX_SEQUENCE: usize = 32;
/// The maximum length of a pasted text whose start was cut off.
const MAX_PASTE: usize = 1 << 20;

/// A stream of events that joins what belongs together.
pub(super) struct Keys<S = EventStream> {
    events: S,
    wait: Duration,
    ready: VecDeque<Event>,
    open: Option<Open>,
    /// The time until which more may belong to `open`.
    until: Instant,
}

/// Something that is not complete.
enum Open {
    /// An escape sequence: the events, and the characters after Esc.
    Sequence(Vec<Event>, String),
    /// A pasted text whose start arrived in parts. Its end is not reported then.
    Paste(String),
}

/// The meaning of the characters after Esc.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// More characters belong to it.
    Incomplete,
    Key(KeyCode, KeyModifiers),
    StartOfPaste,
    /// A sequence of no known key, which does nothing.
    Unknown,
}

impl Keys {
    /// Reads the terminal.
    pub(super) fn new() -> Self {
        let is_remote = std::env::var_os("SSH_CONNECTION").is_some();
        Keys::of(EventStream::new(), if is_remote { SSH_WAIT } else { WAIT })
    }
}

impl<S: Stream<Item = io::Result<Event>> + Unpin> Keys<S> {
    fn of(events: S, wait: Duration) -> Self {
        Keys { events, wait, ready: VecDeque::new(), open: None, until: Instant::now() }
    }

    /// Returns the next event, or `None` if the terminal was closed. Nothing is lost if the future
    /// is dropped.
    pub(super) async fn next(&mut self) -> Option<io::Result<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.open.is_none() {
                match self.events.next().await? {
                    Ok(event) => self.add(event),
                    Err(why) => return Some(Err(why)),
                }
                continue;
            }
            match timeout_at(self.until, self.events.next()).await {
                Ok(Some(Ok(event))) => self.add(event),
                // The end of the terminal is returned again.
                Ok(Some(Err(_)) | None) | Err(_) => self.close(),
            }
        }
    }

    fn add(&mut self, event: Event) {
        self.until = Instant::now() + self.wait;
        let key = match &event {
            Event::Key(key) if key.kind == KeyEventKind::Press => Some(*key),
            _ => None,
        };
        let is_plain = key.is_some_and(|key| (key.modifiers - KeyModifiers::SHIFT).is_empty());
        match (&mut self.open, key.filter(|_| is_plain).map(|key| key.code)) {
            (_, Some(KeyCode::Esc)) => {
                self.close();
                self.open = Some(Open::Sequence(vec![event], String::new()));
            }
            (Some(Open::Sequence(events, text)), Some(KeyCode::Char(letter))) => {
                events.push(event);
                text.push(letter);
                match meaning(text) {
                    Meaning::Incomplete => {}
                    Meaning::Unknown => self.open = None,
                    Meaning::StartOfPaste => self.open = Some(Open::Paste(String::new())),
                    Meaning::Key(code, modifiers) => {
                        self.open = None;
                        self.ready.push_back(Event::Key(KeyEvent::new(code, modifiers)));
                    }
                }
            }
            (Some(Open::Sequence(_, text)), Some(code)) if text.is_empty() => {
                self.open = None;
                self.ready.push_back(Event::Key(KeyEvent::new(code, KeyModifiers::ALT)));
            }
            (Some(Open::Paste(text)), Some(code)) if text.len() < MAX_PASTE => match code {
                KeyCode::Char(letter) => text.push(letter),
                KeyCode::Enter => text.push('\n'),
                KeyCode::Tab => text.push('\t'),
                _ => {}
            },
            _ => {
                self.close();
                self.ready.push_back(event);
            }
        }
    }

    /// Ends what is not complete.
    fn close(&mut self) {
        match self.open.take() {
            None => {}
            Some(Open::Sequence(events, _)) => self.ready.extend(events),
            Some(Open::Paste(text)) => self.ready.push_back(Event::Paste(text)),
        }
    }
}

/// Returns the meaning of the characters after Esc (xterm, *Control Sequences*).
fn meaning(text: &str) -> Meaning {
    let mut letters = text.chars();
    let (Some(first), last) = (letters.next(), letters.next_back()) else {
        return Meaning::Incomplete;
    };
    match (first, last) {
        ('[' | 'O', None) => Meaning::Incomplete,
        ('O', Some(last)) => key(last, ""),
        ('[', Some(last)) if ('@'..='~').contains(&last) => key(last, letters.as_str()),
        ('[', Some(_)) if text.len() < MAX_SEQUENCE => Meaning::Incomplete,
        ('[', Some(_)) => Meaning::Unknown,
        (letter, _) => Meaning::Key(KeyCode::Char(letter), KeyModifiers::ALT),
    }
}

/// Returns the key of a sequence with this last character and these parameters.
fn key(last: char, parameters: &str) -> Meaning {
    let mut parameters = parameters.split(';');
    let number = parameters.next().unwrap_or_default();
    // 1 and a bit for each of Shift, Alt and Ctrl.
    let bits = parameters.next().and_then(|bits| bits.parse::<u8>().ok());
    let bits = bits.map_or(0, |bits| bits.saturating_sub(1));
    let modifiers = [KeyModifiers::SHIFT, KeyModifiers::ALT, KeyModifiers::CONTROL];
    let modifiers = modifiers.into_iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    let modifiers = modifiers.fold(KeyModifiers::NONE, |all, (_, one)| all | one);
    let code = match (last, number) {
        ('~', "200") => return Meaning::StartOfPaste,
        ('A', _) => KeyCode::Up,
        ('B', _) => KeyCode::Down,
        ('C', _) => KeyCode::Right,
        ('D', _) => KeyCode::Left,
        ('F', _) | ('~', "4" | "8") => KeyCode::End,
        ('H', _) | ('~', "1" | "7") => KeyCode::Home,
        ('Z', _) => KeyCode::BackTab,
        ('~', "2") => KeyCode::Insert,
        ('~', "3") => KeyCode::Delete,
        ('~', "5") => KeyCode::PageUp,
        ('~', "6") => KeyCode::PageDown,
        _ => return Meaning::Unknown,
    };
    Meaning::Key(code, modifiers)
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc;

    use super::*;

    fn typed(text: &str) -> Vec<Event> {
        let code = |letter| match letter {
            '\u{1b}' => KeyCode::Esc,
            '\r' => KeyCode::Enter,
            letter => KeyCode::Char(letter),
        };
        text.chars().map(|letter| Event::Key(code(letter).into())).collect()
    }

    /// Returns the events, given what arrives and the milliseconds after each part.
    async fn read(parts: &[(&str, u64)]) -> Vec<Event> {
        let (sender, events) = mpsc::unbounded();
        let parts: Vec<_> = parts.iter().map(|(text, after)| (typed(text), *after)).collect();
        tokio::spawn(async move {
            for (events, after) in parts {
                for event in events {
                    sender.unbounded_send(Ok(event)).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(after)).await;
            }
        });
        let mut keys = Keys::of(events, WAIT);
        let mut read = Vec::new();
        while let Some(event) = keys.next().await {
            read.push(event.unwrap());
        }
        read
    }

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Vec<Event> {
        vec![Event::Key(KeyEvent::new(code, modifiers))]
    }

    /// C465: The rest of a sequence may be late.
    #[tokio::test(start_paused = true)]
    async fn a_sequence_that_arrives_in_parts_is_one_key() {
        let (none, alt) = (KeyModifiers::NONE, KeyModifiers::ALT);
        for (parts, code, modifiers) in [
            (&[("\u{1b}", 30), ("\r", 0)][..], KeyCode::Enter, alt),
            (&[("\u{1b}", 30), ("b", 0)], KeyCode::Char('b'), alt),
            (&[("\u{1b}", 30), ("[D", 0)], KeyCode::Left, none),
            (
                &[("\u{1b}", 30), ("[", 30), ("1;5", 30), ("C", 0)],
                KeyCode::Right,
                KeyModifiers::CONTROL,
            ),
            (&[("\u{1b}", 30), ("OA", 0)], KeyCode::Up, none),
            (&[("\u{1b}", 30), ("[3~", 0)], KeyCode::Delete, none),
        ] {
            assert_eq!(read(parts).await, pressed(code, modifiers), "{parts:?}");
        }
        let paste = [("\u{1b}", 30), ("[200~a\rb", 30), ("\u{1b}", 0)];
        let escape = pressed(KeyCode::Esc, none);
        assert_eq!(
            read(&paste).await,
            [vec![Event::Paste("a\nb".into())], escape.clone()].concat()
        );
        assert_eq!(read(&[("\u{1b}", 30), ("[99x", 0)]).await, []);
    }

    /// C465: Esc alone is a key, and so is what is typed after it.
    #[tokio::test(start_paused = true)]
    async fn keys_that_are_pressed_one_after_the_other_stay_what_they_are() {
        for parts in [
            &[("\u{1b}", 60), ("\r", 0)][..],
            &[("\u{1b}", 60), ("[D", 0)],
            &[("\u{1b}\u{1b}", 60), ("a", 0)],
            &[("a\r", 0), ("\u{1b}", 0)],
            &[("\u{1b}[", 60), ("x", 0)],
        ] {
            let all: String = parts.iter().map(|(text, _)| *text).collect();
            assert_eq!(read(parts).await, typed(&all), "{parts:?}");
        }
        let control = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        let mut keys =
            Keys::of(futures::stream::iter([Ok(typed("\u{1b}").remove(0)), Ok(control)]), WAIT);
        assert_eq!(keys.next().await.unwrap().unwrap(), typed("\u{1b}")[0]);
    }
}
