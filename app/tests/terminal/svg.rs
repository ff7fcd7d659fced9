//! A drawing of a terminal's screen: escape sequences for colours in, SVG out.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

/// Width and height of a cell, and the margin, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 14.0;
const PAPER: &str = "#16181d";
const INK: &str = "#d5d9e0";
const FONTS: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
/// The sixteen colours of a terminal.
const COLOURS: [&str; 16] = [
    "#16181d", "#e0707a", "#8fbf6f", "#d9b36c", "#6fa8dc", "#bd8fd8", "#62b8b8", "#c5cad3",
    "#6b7280", "#ef8a92", "#a6d189", "#e5c890", "#8caaee", "#ca9ee6", "#81c8be", "#ffffff",
];

/// The style of text.
#[derive(Clone, Default, PartialEq)]
struct TextStyle {
    ink: Option<String>,
    paper: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underlined: bool,
    reversed: bool,
}

/// Draws a screen as `tmux capture-pane -e` prints it.
pub(crate) fn picture(screen: &str, columns: u16) -> String {
    let lines: Vec<&str> = screen.lines().collect();
    let width = f64::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = lines.len() as f64 * CELL.1 + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"{FONTS}\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{PAPER}\"/>\n"
    );
    let mut style = TextStyle::default();
    for (row, line) in lines.iter().enumerate() {
        let (mut column, top) = (0, MARGIN + row as f64 * CELL.1);
        for chunk in line.split('\x1b') {
            let text = match chunk.strip_prefix('[').and_then(|rest| rest.split_once('m')) {
                Some((codes, text)) => {
                    style.apply(codes);
                    text
                }
                None => chunk,
            };
            style.draw(&mut svg, text, column, top);
            column += text.width();
        }
    }
    svg + "</svg>\n"
}

impl TextStyle {
    fn apply(&mut self, codes: &str) {
        let mut codes = codes.split([';', ':']).map(|code| code.parse::<usize>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = TextStyle::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underlined = true,
                7 => self.reversed = true,
                22 => {
                    self.bold = false;
                    self.dim = false;
                }
                23 => self.italic = false,
                24 => self.underlined = false,
                27 => self.reversed = false,
                30..=37 => self.ink = Some(COLOURS[code - 30].into()),
                40..=47 => self.paper = Some(COLOURS[code - 40].into()),
                90..=97 => self.ink = Some(COLOURS[code - 82].into()),
                100..=107 => self.paper = Some(COLOURS[code - 92].into()),
                38 => self.ink = colour(&mut codes),
                48 => self.paper = colour(&mut codes),
                39 => self.ink = None,
                49 => self.paper = None,
                _ => {}
            }
        }
    }

    fn draw(&self, svg: &mut String, text: &str, column: usize, top: f64) {
        let (x, width) = (MARGIN + column as f64 * CELL.0, text.width() as f64 * CELL.0);
        let (mut ink, mut paper) = (self.ink.as_deref().unwrap_or(INK), self.paper.as_deref());
        if self.reversed {
            (ink, paper) = (paper.unwrap_or(PAPER), Some(ink));
        }
        if let Some(paper) = paper.filter(|_| !text.is_empty()) {
            let (y, height) = (top, CELL.1);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" \
                 fill=\"{paper}\"/>"
            );
        }
        if text.trim().is_empty() {
            return;
        }
        let mut style = format!("fill=\"{ink}\"");
        for (holds, attribute) in [
            (self.bold, " font-weight=\"bold\""),
            (self.dim, " opacity=\"0.6\""),
            (self.italic, " font-style=\"italic\""),
            (self.underlined, " text-decoration=\"underline\""),
        ] {
            if holds {
                style.push_str(attribute);
            }
        }
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let y = top + CELL.1 * 0.75;
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{width:.1}\" xml:space=\"preserve\" \
             {style}>{text}</text>"
        );
    }
}

/// Parses a colour of the 256, or an RGB colour.
fn colour(codes: &mut impl Iterator<Item = usize>) -> Option<String> {
    match codes.next()? {
        5 => match codes.next()? {
            basic @ 0..=15 => Some(COLOURS[basic].into()),
            cube @ 16..=231 => {
                let part = |shift: usize| [0, 95, 135, 175, 215, 255][(cube - 16) / shift % 6];
                Some(format!("#{:02x}{:02x}{:02x}", part(36), part(6), part(1)))
            }
            grey => Some(format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (grey.min(255) - 232))),
        },
        2 => Some(format!("#{:02x}{:02x}{:02x}", codes.next()?, codes.next()?, codes.next()?)),
        _ => None,
    }
}

#[test]
fn colours_become_colours_and_nothing_is_markup() {
    let svg = picture("a\x1b[1;31mb <i>&\x1b[0m\n\x1b[48;5;196m \x1b[38;2;1;2;3mz", 10);
    assert!(svg.contains("fill=\"#d5d9e0\">a</text>"), "{svg}");
    assert!(svg.contains("fill=\"#e0707a\" font-weight=\"bold\">b &lt;i&gt;&amp;</text>"), "{svg}");
    assert!(svg.contains("fill=\"#ff0000\"/>") && svg.contains("fill=\"#010203\">z"), "{svg}");
}
