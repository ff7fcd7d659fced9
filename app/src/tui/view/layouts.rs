//! Blocks as they were laid out, for as long as they stay as they are.

use std::collections::HashMap;
use std::time::Duration;

use loopwright::Progress;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::tui::paint::{Markdown, Theme, ToolLook, ToolPhase, languages, tool, wrap};
use crate::tui::state::{Choice, Entry, Kind, Phase, State, Thought, Tone, ToolEntry, user_text};

/// The most blocks that are kept. When there are more, those that were not on the screen last go.
const MOST: usize = 512;

/// Prose is not laid out wider than this: the eye loses its line.
const COLUMN: u16 = 110;

/// Laid-out blocks by their ids.
#[derive(Default)]
pub(super) struct Layouts {
    laid: HashMap<u64, Laid>,
    /// Counts frames.
    frame: u64,
    /// How many blocks were laid out anew.
    pub(super) made: u64,
}

struct Laid {
    /// For how many seconds the call has been running, and whether program text could be highlighted.
    moment: (Option<u64>, usize),
    revision: u32,
    width: u16,
    open: bool,
    frame: u64,
    painted: Painted,
}

enum Painted {
    Lines(Vec<Line<'static>>),
    Markdown(Box<Markdown>),
}

impl Layouts {
    /// A frame begins.
    pub(super) fn begin(&mut self) {
        self.frame += 1;
        if self.laid.len() > MOST {
            let last = self.frame - 1;
            self.laid.retain(|_, laid| laid.frame >= last);
        }
    }

    /// The lines of this block.
    pub(super) fn lines(&mut self, entry: &Entry, width: u16, state: &State, theme: &Theme) -> &[Line<'static>] {
        let (width, usual, moment) = match &entry.kind {
            Kind::Tool(call) => (width, state.open.0, (elapsed(call, state.now).filter(|_| runs(call)), languages())),
            _ => (width.saturating_sub(2).min(COLUMN), state.open.1, (None, 0)),
        };
        let open = entry.open.unwrap_or(usual);
        let old = self.laid.remove(&entry.id).filter(|old| old.width == width && old.open == open);
        let painted = match old {
            Some(old) if (old.revision, old.moment) == (entry.revision, moment) => old.painted,
            old => {
                self.made += 1;
                paint(entry, old.map(|old| old.painted), width, open, state.now, theme)
            }
        };
        let laid = Laid { moment, revision: entry.revision, width, open, frame: self.frame, painted };
        match (&mut self.laid.entry(entry.id).insert_entry(laid).into_mut().painted, &entry.kind) {
            (Painted::Lines(lines), _) => lines,
            // It knows itself what of it is to be laid out anew.
            (Painted::Markdown(text), Kind::Text(said)) => text.update(said.text(), said.is_whole(), theme),
            (Painted::Markdown(_), _) => &[],
        }
    }
}

fn paint(entry: &Entry, old: Option<Painted>, width: u16, open: bool, now: u64, theme: &Theme) -> Painted {
    match &entry.kind {
        Kind::Text(_) => match old {
            Some(Painted::Markdown(text)) => Painted::Markdown(text),
            _ => Painted::Markdown(Box::new(Markdown::new(width))),
        },
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

fn thinking(thought: &Thought, width: u16, open: bool, theme: &Theme) -> Vec<Line<'static>> {
    let quiet = theme.dim.add_modifier(Modifier::ITALIC);
    let text = thought.said.text().trim();
    let whole = thought.said.is_whole();
    if !whole && !open {
        // The end of it, of which no more can be seen than this.
        let most = usize::from(width) * (THOUGHT + 1);
        let from = text.ceil_char_boundary(text.len().saturating_sub(most));
        let lines = wrap(&text[from..], width, quiet);
        let hidden = lines.len().saturating_sub(THOUGHT);
        return lines.into_iter().skip(hidden).collect();
    }
    let seconds = thought.time.map(|(began, last)| last.saturating_sub(began) / 1000);
    let title = match (whole, seconds) {
        (false, _) => "Thinking".to_owned(),
        (true, Some(seconds)) if seconds > 0 => format!("Thought for {}", super::activity::time(seconds)),
        (true, _) => "Thought".to_owned(),
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

fn tool_lines(call: &ToolEntry, width: u16, open: bool, now: u64, theme: &Theme) -> Vec<Line<'static>> {
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
        raw: &call.raw,
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
