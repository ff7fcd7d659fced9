//! Blocks as they were laid out, for as long as they stay as they are.

use std::collections::HashMap;

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::stub::tool;
use crate::tui::paint::{Markdown, Theme, wrap};
use crate::tui::state::{Entry, Kind, Thought, Tone, ToolEntry, user_text};

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
    pub(super) fn lines(&mut self, entry: &Entry, width: u16, open: (bool, bool), theme: &Theme) -> &[Line<'static>] {
        let width = if matches!(entry.kind, Kind::Tool(_)) { width } else { width.min(COLUMN) };
        let open = entry.open.unwrap_or(if matches!(entry.kind, Kind::Tool(_)) { open.0 } else { open.1 });
        let old = self.laid.remove(&entry.id).filter(|old| old.width == width && old.open == open);
        let painted = match old {
            Some(old) if old.revision == entry.revision => old.painted,
            old => {
                self.made += 1;
                paint(entry, old.map(|old| old.painted), width, open, theme)
            }
        };
        let laid = Laid { revision: entry.revision, width, open, frame: self.frame, painted };
        match (&mut self.laid.entry(entry.id).insert_entry(laid).into_mut().painted, &entry.kind) {
            (Painted::Lines(lines), _) => lines,
            // It knows itself what of it is to be laid out anew.
            (Painted::Markdown(text), Kind::Text(said)) => text.update(said.text(), said.is_whole(), theme),
            (Painted::Markdown(_), _) => &[],
        }
    }
}

fn paint(entry: &Entry, old: Option<Painted>, width: u16, open: bool, theme: &Theme) -> Painted {
    match &entry.kind {
        Kind::Text(_) => match old {
            Some(Painted::Markdown(text)) => Painted::Markdown(text),
            _ => Painted::Markdown(Box::new(Markdown::new(width))),
        },
        Kind::User(message) => Painted::Lines(wrap(&user_text(message), width, theme.user)),
        Kind::Welcome(root) => Painted::Lines(welcome(root, theme)),
        Kind::Thinking(thought) => Painted::Lines(thinking(thought, width, open, theme)),
        Kind::Tool(call) => Painted::Lines(tool(call, width, open, theme)),
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

/// How a new conversation begins.
pub(super) fn welcome(root: &str, theme: &Theme) -> Vec<Line<'static>> {
    let name = Span::styled("loopwright", theme.accent.add_modifier(Modifier::BOLD));
    vec![
        Line::default(),
        Line::from(vec![name, Span::styled(concat!("  ", env!("CARGO_PKG_VERSION")), theme.dim)]),
        Line::from(Span::styled(root.to_owned(), theme.dim)),
        Line::default(),
        Line::from(Span::styled("@ names a file · / gives a command · /help tells more", theme.dim)),
    ]
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

/// The mark before a block, and whether it is one that stands for something to be seen to.
pub(super) fn mark(entry: &Entry, theme: &Theme) -> Span<'static> {
    match &entry.kind {
        Kind::User(_) => Span::styled("›", theme.accent),
        Kind::Text(_) | Kind::Welcome(_) => Span::raw(" "),
        Kind::Thinking(_) => Span::styled("·", theme.dim),
        Kind::Tool(call) => tool_mark(call, theme),
        Kind::Notice(Tone::Error, _) => Span::styled("!", theme.error),
        Kind::Notice(..) => Span::styled("·", theme.dim),
    }
}

fn tool_mark(call: &ToolEntry, theme: &Theme) -> Span<'static> {
    use crate::tui::state::Phase;
    match (call.phase, call.result()) {
        (Phase::Done, Some(result)) if result.is_error() => Span::styled("✗", theme.error),
        (Phase::Done, _) => Span::styled("✓", theme.ok),
        (Phase::Asking, _) => Span::styled("?", theme.warning),
        (Phase::Running, _) => Span::styled("●", theme.accent),
        _ => Span::styled("○", theme.dim),
    }
}
