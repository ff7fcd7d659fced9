//! Cached layouts of blocks.

use std::collections::HashMap;
use std::time::Duration;

use loopwright_core::tool::Progress;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::environment::started_as;
use crate::tui::paint::{Growing, Markdown, Theme, ToolPhase, ToolView, languages, tool, wrap};
use crate::tui::state::{
    Choice, Entry, Kind, Phase, State, Thought, Tone, ToolEntry, Transcript, user_text,
};
use crate::wording::time;

/// Maximum number of cached blocks. Beyond it, blocks that were not in the last frame are dropped.
const MAX_CACHED_BLOCKS: usize = 512;
/// Maximum number of cached lines. Beyond it, blocks that were not in the last frame are dropped.
const MAX_CACHED_LINES: usize = 20_000;

/// Maximum width of prose, for legibility.
const MAX_PROSE_COLUMNS: u16 = 110;

/// Layouts by the ids of their blocks.
#[derive(Default)]
pub(super) struct Layouts {
    cached: HashMap<u64, CachedLayout>,
    /// The number of the current frame.
    frame: u64,
    /// The first block of the session that the layouts belong to.
    first: Option<u64>,
    /// The number of blocks laid out so far.
    #[cfg(test)]
    pub(super) layout_count: u64,
}

struct CachedLayout {
    key: LayoutKey,
    frame: u64,
    painted: Painted,
}

/// The inputs of a layout. Its lines stay the same while these do.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LayoutKey {
    revision: u32,
    width: u16,
    open: bool,
    /// The seconds since the call started.
    elapsed: Option<u64>,
    /// The number of languages that can be highlighted; 0 for a block without program text.
    languages: usize,
}

enum Painted {
    Lines(Vec<Line<'static>>),
    Markdown(Box<Markdown>),
    /// An open thought that is still streaming.
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
    /// Begins a frame of this transcript.
    pub(super) fn begin(&mut self, transcript: &Transcript) {
        self.frame += 1;
        let first = transcript.entries().first().map(|entry| entry.id);
        if std::mem::replace(&mut self.first, first) != first {
            self.cached.clear();
        }
        if self.cached.len() > MAX_CACHED_BLOCKS || self.cached_lines() > MAX_CACHED_LINES {
            let last = self.frame - 1;
            self.cached.retain(|_, cached| cached.frame >= last);
        }
    }

    /// Returns the number of cached lines.
    pub(super) fn cached_lines(&self) -> usize {
        self.cached.values().map(|cached| cached.painted.lines().len()).sum()
    }

    /// Returns the lines of a block.
    pub(super) fn lines(
        &mut self,
        entry: &Entry,
        width: u16,
        state: &State,
        theme: &Theme,
    ) -> &[Line<'static>] {
        if entry.is_hidden() {
            return &[];
        }
        let open = entry.open.unwrap_or(if matches!(entry.kind, Kind::Tool(_)) {
            state.open_results
        } else {
            state.open_thoughts
        });
        let (width, elapsed, languages) = match &entry.kind {
            Kind::Tool(call) => {
                // Only the content of a written file is program text; diffs are not highlighted.
                let languages = if open && &*call.name == "write_file" { languages() } else { 0 };
                (width, elapsed(call, state.now).filter(|_| call.is_running()), languages)
            }
            Kind::Text(_) => (width.saturating_sub(2).min(MAX_PROSE_COLUMNS), None, languages()),
            _ => (width.saturating_sub(2).min(MAX_PROSE_COLUMNS), None, 0),
        };
        let key = LayoutKey { revision: entry.revision, width, open, elapsed, languages };
        if self.cached.get(&entry.id).is_none_or(|old| old.key != key) {
            let old = self.cached.remove(&entry.id);
            let old = old.filter(|old| (old.key.width, old.key.open) == (width, open));
            let painted = paint(entry, old.map(|old| old.painted), width, open, state.now, theme);
            self.cached.insert(entry.id, CachedLayout { key, frame: self.frame, painted });
            #[cfg(test)]
            {
                self.layout_count += 1;
            }
        }
        let Some(cached) = self.cached.get_mut(&entry.id) else {
            return &[];
        };
        cached.frame = self.frame;
        cached.painted.lines()
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
        Kind::Text(reply) => {
            let mut text = match old {
                Some(Painted::Markdown(text)) => text,
                _ => Box::new(Markdown::new(width)),
            };
            // This lays out only the change.
            text.update(reply.as_str(), reply.is_complete(), theme);
            Painted::Markdown(text)
        }
        Kind::Thinking(thought) if open && !thought.text.is_complete() => {
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
            text.update(thought.text.as_str().trim());
            Painted::Thought(text)
        }
        Kind::User(message) => Painted::Lines(wrap(&user_text(message), width, theme.user)),
        Kind::Speaker(name) => {
            let style = theme.accent.add_modifier(Modifier::BOLD);
            Painted::Lines(wrap(name, width, style))
        }
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

/// Minimum width for two columns. On narrower screens, notes are below their names.
const MIN_TWO_COLUMN_WIDTH: u16 = 56;

fn table(rows: &[Choice], width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let widest = rows.iter().map(|row| row.value.chars().count()).max().unwrap_or(0);
    let first = if width < MIN_TWO_COLUMN_WIDTH { 2 } else { widest + 2 };
    let mut lines = Vec::new();
    for row in rows {
        let mut name = Some(Span::styled(row.value.clone(), theme.text));
        if width < MIN_TWO_COLUMN_WIDTH {
            lines.extend(name.take().map(Line::from));
        }
        let room = width.saturating_sub(u16::try_from(first).unwrap_or(u16::MAX)).max(1);
        for text in wrap(&row.note, room, theme.dim) {
            let mut line = Line::from(name.take().unwrap_or_default());
            line.spans.push(Span::raw(" ".repeat(first - line.width().min(first))));
            line.spans.extend(text.spans);
            lines.push(line);
        }
        lines.extend(name.map(Line::from));
    }
    lines
}

/// Lays out the greeting of a new conversation.
pub(super) fn welcome(root: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let name = Span::styled(started_as(), theme.accent.add_modifier(Modifier::BOLD));
    let mut lines = vec![Line::default(), Line::from(name)];
    lines.extend(wrap(root, width, theme.dim));
    lines.push(Line::default());
    lines.extend(wrap(
        "@ completes a file · / a command · /help lists keys and commands",
        width,
        theme.dim,
    ));
    lines
}

/// Maximum number of lines of a folded thought while it streams.
const MAX_FOLDED_THOUGHT_LINES: usize = 4;

fn thought_style(theme: &Theme) -> Style {
    theme.dim.add_modifier(Modifier::ITALIC)
}

/// Lays out a complete thought, or the end of a streaming one.
fn thinking(thought: &Thought, width: u16, open: bool, theme: &Theme) -> Vec<Line<'static>> {
    let quiet = thought_style(theme);
    let text = thought.text.as_str().trim();
    if !thought.text.is_complete() {
        // More than this cannot be visible.
        let max_bytes = usize::from(width) * (MAX_FOLDED_THOUGHT_LINES + 1);
        let from = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
        let lines = wrap(&text[from..], width, quiet);
        let hidden = lines.len().saturating_sub(MAX_FOLDED_THOUGHT_LINES);
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

/// Returns the number of seconds for which the call has been running, or ran.
fn elapsed(call: &ToolEntry, now: u64) -> Option<u64> {
    let until = if call.is_running() { now } else { call.ended? };
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
        (Phase::Running, None) if call.is_running() => ToolPhase::Running,
        _ => ToolPhase::Waiting,
    };
    let mut tail: Vec<String> = call.tail.lines().rev().take(8).map(str::to_owned).collect();
    tail.reverse();
    match &call.awaits[..] {
        [] => tail.extend(call.progress.as_ref().map(progress)),
        awaits => tail.extend(awaits.iter().map(|(_, what)| format!("waits for you: {what}"))),
    }
    let arguments = call.value();
    let view = ToolView {
        name: &call.name,
        arguments: arguments.as_deref(),
        raw: call.raw(),
        phase,
        elapsed: elapsed(call, now).map(Duration::from_secs),
        tail: &tail,
        result: call.result(),
        open,
    };
    tool(&view, width, theme)
}

/// Formats progress as `3 of 10: message`. Without a total, a message replaces the number, which
/// would say little.
fn progress(progress: &Progress) -> String {
    let Progress { done, message, .. } = progress;
    match progress.total {
        Some(total) if message.is_empty() => format!("{done} of {total}"),
        Some(total) => format!("{done} of {total}: {message}"),
        None if message.is_empty() => done.to_string(),
        None => message.clone(),
    }
}

/// Returns the mark before a block; calls draw their own.
pub(super) fn mark(entry: &Entry, theme: &Theme) -> Option<Span<'static>> {
    Some(match &entry.kind {
        Kind::User(_) => Span::styled("›", theme.accent),
        Kind::Thinking(_) => Span::styled("·", theme.dim),
        Kind::Notice(Tone::Error, _) => Span::styled("!", theme.error),
        Kind::Notice(..) | Kind::Table(_) => Span::styled("·", theme.dim),
        Kind::Speaker(_) => Span::styled("»", theme.accent),
        Kind::Text(_) | Kind::Welcome(_) | Kind::Tool(_) => return None,
    })
}
