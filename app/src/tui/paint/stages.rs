//! The stages of a pattern's work, each on a line.

use loopwright_core::log::Stage;
use ratatui::text::Line;

use super::flow::{Fragment, columns, shorten};
use super::theme::Theme;
use crate::wording;

/// Lays out at most `max` stages around the current one, with the time that each took, at `now` if
/// a run is in progress. Returns no line if the pattern is at no stage.
pub(crate) fn stages(
    stages: &[Stage],
    max: usize,
    now: Option<u64>,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let Some(at) = stages.iter().position(|stage| stage.until.is_none()) else { return vec![] };
    let first = (at + 1).saturating_sub(max);
    stages.iter().skip(first).take(max).map(|stage| line(stage, now, width, theme)).collect()
}

fn line(stage: &Stage, now: Option<u64>, width: u16, theme: &Theme) -> Line<'static> {
    let (mark, mark_style, style) = match stage.until {
        Some(_) => ("✓", theme.ok, theme.dim),
        None if now.is_some() => ("●", theme.accent, theme.text),
        None => ("○", theme.dim, theme.text),
    };
    let end = stage.until.or(now);
    let seconds = end.map(|end| end.saturating_sub(stage.since) / 1000);
    let took = seconds.map_or_else(String::new, |seconds| format!("  {}", wording::time(seconds)));
    let room = usize::from(width).saturating_sub(columns(&took));
    let text = shorten(&format!("{mark} {}", wording::stage(stage)), room);
    let rest = text.strip_prefix(mark).unwrap_or_default().to_owned();
    let took = shorten(&took, usize::from(width).saturating_sub(columns(&text)));
    Line::from(vec![
        Fragment::styled(mark, mark_style),
        Fragment::styled(rest, style),
        Fragment::styled(took, theme.dim),
    ])
}
