//! Blocks as they were laid out, for as long as they stay as they are.

use std::collections::HashMap;
use std::time::Duration;

use loopwright_core::tool::Progress;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::telling::time;
use crate::tui::paint::{Growing, Markdown, Theme, ToolLook, ToolPhase, languages, tool, wrap};
use crate::tui::state::{
    Choice, Entry, Kind, Phase, State, Thought, Tone, ToolEntry, Transcript, user_text,
};

/// The most blocks that are kept. When there are more, those that were not on the screen last go.
const MOST: usize = 512;
/// The same of lines.
const LINES: usize = 20_000;

/// Prose is not laid out wider than this: the eye loses its line.
const COLUMN: u16 = 110;

/// Laid-out blocks by their ids.
#[derive(Default)]
pub(super) struct Layouts {
    laid: HashMap<u64, Laid>,
    /// Counts frames.
    frame: u64,
    /// The first block of the session that they are of.
    first: Option<u64>,
    /// How many blocks were laid out anew.
    #[cfg(test)]
    pub(super) made: u64,
}

struct Laid {
    made_for: MadeFor,
    frame: u64,
    painted: Painted,
}

/// What a block was laid out for. While this is the same, so are its lines.
#[derive(Clone, Copy, PartialEq, Eq)]
struct MadeFor {
    revision: u32,
    width: u16,
    open: bool,
    /// For how many seconds the call has been running.
    elapsed: Option<u64>,
    /// How many languages program text can be highlighted in, if there can be any.
    languages: usize,
}

enum Painted {
    Lines(Vec<Line<'static>>),
    Markdown(Box<Markdown>),
    /// A thought that goes on, and is open.
    Thought(Box<Growing>),
}

impl Painted {
    fn lines(&self) -> &[Line<'static>] {
        match self {
            Painted::Lines(lines) => lines,
            Painted::Markdown(text) => text.lines(),
            Painted::Thought(text) => text.lines(),
        }
    }
}

impl Layouts {
    /// A frame of this transcript begins.
    pub(super) fn begin(&mut self, transcript: &Transcript) {
        self.frame += 1;
        let first = transcript.entries().first().map(|entry| entry.id);
        if std::mem::replace(&mut self.first, first) != first {
            self.laid.clear();
        }
        if self.laid.len() > MOST || self.lines_kept() > LINES {
            let last = self.frame - 1;
            self.laid.retain(|_, laid| laid.frame >= last);
        }
    }

    /// How many lines are kept.
    pub(super) fn lines_kept(&self) -> usize {
        self.laid.values().map(|laid| laid.painted.lines().len()).sum()
    }

    /// The lines of this block.
    pub(super) fn lines(
        &mut self,
        entry: &Entry,
        width: u16,
        state: &State,
        theme: &Theme,
    ) -> &[Line<'static>] {
        let open = entry.open.unwrap_or(if matches!(entry.kind, Kind::Tool(_)) {
            state.open.0
        } else {
            state.open.1
        });
        let (width, elapsed, languages) = match &entry.kind {
            Kind::Tool(call) => {
                // Only what it has written is program text; diffs are none.
                let languages = if open && &*call.name == "write_file" { languages() } else { 0 };
                (width, elapsed(call, state.now).filter(|_| runs(call)), languages)
            }
            Kind::Text(_) => (width.saturating_sub(2).min(COLUMN), None, languages()),
            _ => (width.saturating_sub(2).min(COLUMN), None, 0),
        };
        let made_for = MadeFor { revision: entry.revision, width, open, elapsed, languages };
        if self.laid.get(&entry.id).is_none_or(|old| old.made_for != made_for) {
            let old = self.laid.remove(&entry.id);
            let old = old.filter(|old| (old.made_for.width, old.made_for.open) == (width, open));
            let painted = paint(entry, old.map(|old| old.painted), width, open, state.now, theme);
            self.laid.insert(entry.id, Laid { made_for, frame: self.frame, painted });
            #[cfg(test)]
            {
                self.made += 1;
            }
        }
        let Some(laid) = self.laid.get_mut(&entry.id) else {
            return &[];
        };
        laid.frame = self.frame;
        laid.painted.lines()
    }
}

fn paint(
    entry: &Entry,
    old: Option<Painted>,
    width: u16,
    open: bool,
    now: u64,
    theme: &Theme,
) -> Painted {
    match &entry.kind {
        Kind::Text(said) => {
            let mut text = match old {
                Some(Painted::Markdown(text)) => text,
                _ => Box::new(Markdown::new(width)),
            };
            // It knows itself what of it is to be laid out anew.
            text.update(said.text(), said.is_whole(), theme);
            Painted::Markdown(text)
        }
        Kind::Thinking(thought) if open && !thought.said.is_whole() => {
            let mut text = match old {
                Some(Painted::Thought(text)) => text,
                _ => {
                    let style = thought_style(theme);
                    Box::new(Growing::below(
                        Line::from(Span::styled("Thinking", style)),
                        width,
                        style,
                    ))
                }
            };
            text.update(thought.said.text().trim());
            Painted::Thought(text)
        }
        Kind::User(message) => Painted::Lines(wrap(&user_text(message), width, theme.user)),
        Kind::Table(rows) => Painted::Lines(table(rows, width, theme)),
        Kind::Welcome(root) => Painted::Lines(welcome(root, width, theme)),
        Kind::Thinking(thought) => Painted::Lines(thinking(thought, width, open, theme)),
        Kind::Tool(call) => Painted::Lines(tool_lines(call, width, open, now, theme)),
        Kind::Notice(tone, text) => {
            let style = match tone {
                Tone::Quiet => theme.dim,
                Tone::Loud => theme.text,
                Tone::Error => theme.error,
            };
            Painted::Lines(wrap(text, width, style))
        }
    }
}

/// On narrower screens what is said of a name stands below it.
const TWO_COLUMNS: u16 = 56;

fn table(rows: &[Choice], width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let longest = rows.iter().map(|row| row.value.chars().count()).max().unwrap_or(0);
    let first = if width < TWO_COLUMNS { 2 } else { longest + 2 };
    let mut lines = Vec::new();
    for row in rows {
        let mut name = Some(Span::styled(row.value.clone(), theme.text));
        if width < TWO_COLUMNS {
            lines.extend(name.take().map(Line::from));
        }
        let room = width.saturating_sub(u16::try_from(first).unwrap_or(u16::MAX)).max(1);
        for said in wrap(&row.note, room, theme.dim) {
            let mut line = Line::from(name.take().unwrap_or_default());
            line.spans.push(Span::raw(" ".repeat(first - line.width().min(first))));
            line.spans.extend(said.spans);
            lines.push(line);
        }
        lines.extend(name.map(Line::from));
    }
    lines
}

/// How a new conversation begins.
pub(super) fn welcome(root: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let name = Span::styled("loopwright", theme.accent.add_modifier(Modifier::BOLD));
    let version = Span::styled(concat!("  ", env!("CARGO_PKG_VERSION")), theme.dim);
    let mut lines = vec![Line::default(), Line::from(vec![name, version])];
    lines.extend(wrap(root, width, theme.dim));
    lines.push(Line::default());
    lines.extend(wrap("@ names a file · / gives a command · /help tells more", width, theme.dim));
    lines
}

/// The lines of a thought that are seen while it goes on and is folded.
const THOUGHT: usize = 4;

fn thought_style(theme: &Theme) -> Style {
    theme.dim.add_modifier(Modifier::ITALIC)
}

/// A thought that is whole, or of which only the end is seen.
fn thinking(thought: &Thought, width: u16, open: bool, theme: &Theme) -> Vec<Line<'static>> {
    let quiet = thought_style(theme);
    let text = thought.said.text().trim();
    if !thought.said.is_whole() {
        // The end of it, of which no more can be seen than this.
        let most = usize::from(width) * (THOUGHT + 1);
        let from = text.ceil_char_boundary(text.len().saturating_sub(most));
        let lines = wrap(&text[from..], width, quiet);
        let hidden = lines.len().saturating_sub(THOUGHT);
        return lines.into_iter().skip(hidden).collect();
    }
    let seconds = thought.time.map(|(began, last)| last.saturating_sub(began) / 1000);
    let title = match seconds {
        Some(seconds) if seconds > 0 => format!("Thought for {}", time(seconds)),
        _ => "Thought".to_owned(),
    };
    let mut lines = vec![Line::from(Span::styled(title, quiet))];
    if open {
        lines.extend(wrap(text, width, quiet));
    }
    lines
}

fn runs(call: &ToolEntry) -> bool {
    call.phase == Phase::Running
}

/// For how many seconds it has been running, or ran.
fn elapsed(call: &ToolEntry, now: u64) -> Option<u64> {
    let until = if runs(call) { now } else { call.ended? };
    Some(until.saturating_sub(call.began?) / 1000)
}

fn tool_lines(
    call: &ToolEntry,
    width: u16,
    open: bool,
    now: u64,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let phase = match (call.phase, call.result()) {
        (_, Some(result)) => ToolPhase::Done(result.status),
        (Phase::Writing, None) => ToolPhase::Writing,
        (Phase::Running, None) => ToolPhase::Running,
        _ => ToolPhase::Waiting,
    };
    let mut tail: Vec<String> = call.tail.lines().rev().take(8).map(str::to_owned).collect();
    tail.reverse();
    tail.extend(call.progress.as_ref().map(progress));
    let arguments = call.value();
    let look = ToolLook {
        name: &call.name,
        arguments: arguments.as_deref(),
        raw: call.raw(),
        phase,
        elapsed: elapsed(call, now).map(Duration::from_secs),
        tail: &tail,
        result: call.result(),
        open,
    };
    tool(&look, width, theme)
}

/// `3 of 10: what it does`.
fn progress(progress: &Progress) -> String {
    let done = match progress.total {
        Some(total) => format!("{} of {total}", progress.done),
        None => progress.done.to_string(),
    };
    if progress.message.is_empty() { done } else { format!("{done}: {}", progress.message) }
}

/// The mark before a block; a call has its own.
pub(super) fn mark(entry: &Entry, theme: &Theme) -> Option<Span<'static>> {
    Some(match &entry.kind {
        Kind::User(_) => Span::styled("›", theme.accent),
        Kind::Thinking(_) => Span::styled("·", theme.dim),
        Kind::Notice(Tone::Error, _) => Span::styled("!", theme.error),
        Kind::Notice(..) | Kind::Table(_) => Span::styled("·", theme.dim),
        Kind::Text(_) | Kind::Welcome(_) | Kind::Tool(_) => return None,
    })
}
