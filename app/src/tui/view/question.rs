//! A question in the dialog: its text, its options, the form of its answer.

use std::ops::Range;

use loopwright_core::tool::{AnswerForm, Question};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::paint::{Theme, arguments, wrap};
use crate::tui::state::Mode;

/// Lays out a question. Also returns the lines of the current option, if any.
pub(super) fn question_lines(
    question: &Question,
    mode: &Mode,
    width: u16,
    theme: &Theme,
) -> (Vec<Line<'static>>, Option<Range<usize>>) {
    let mut lines = wrap(&question.question, width, theme.text);
    let mut current = None;
    let options = match &question.form {
        AnswerForm::Choice { options } | AnswerForm::Several { options } => options.as_slice(),
        AnswerForm::Json { schema } => {
            lines.extend(wrap("Answer with JSON that fits this schema:", width, theme.dim));
            lines.extend(arguments("", schema, width, theme));
            &[]
        }
        AnswerForm::Secret => {
            lines.extend(wrap("Your answer is not shown.", width, theme.dim));
            &[]
        }
        _ => &[],
    };
    if !options.is_empty() {
        lines.push(Line::default());
    }
    match mode {
        Mode::Options(state) => {
            for (index, (text, is_current, is_chosen)) in state.rows().enumerate() {
                let mark = if is_current { "› " } else { "  " };
                let chosen = match (state.is_several(), is_chosen) {
                    (false, _) => "",
                    (true, false) => "[ ] ",
                    (true, true) => "[x] ",
                };
                let style = if is_current { theme.accent } else { theme.text };
                let start = lines.len();
                lines.extend(option(&format!("{mark}{chosen}{}. ", index + 1), text, width, style));
                if is_current {
                    current = Some(start..lines.len());
                }
            }
        }
        _ => {
            for (index, text) in options.iter().enumerate() {
                lines.extend(option(&format!("  {}. ", index + 1), text, width, theme.dim));
            }
        }
    }
    (lines, current)
}

/// Lays out an option, the lines after the first indented.
fn option(before: &str, text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let indent = before.chars().count();
    let room = width.saturating_sub(u16::try_from(indent).unwrap_or(u16::MAX)).max(1);
    let text = if text.trim().is_empty() { "(empty)" } else { text };
    let wrapped = wrap(text, room, style).into_iter().enumerate();
    let line = |(row, mut line): (usize, Line<'static>)| {
        let start = if row == 0 { before.to_owned() } else { " ".repeat(indent) };
        line.spans.insert(0, Span::styled(start, style));
        line
    };
    wrapped.map(line).collect()
}
