//! [`Theme`]: the style of each role of text.

use ratatui::style::{Color, Modifier, Style};

/// The style of each role of text. A style contains only what it adds to the surrounding one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Plain text.
    pub(crate) text: Style,
    /// Secondary text: marks, counts, times.
    pub(crate) dim: Style,
    /// Highlights.
    pub(crate) accent: Style,
    /// Messages of the user.
    pub(crate) user: Style,
    /// Headings, and the first row of a table.
    pub(crate) heading: Style,
    pub(crate) strong: Style,
    pub(crate) emphasis: Style,
    pub(crate) struck: Style,
    /// Code within a line of text.
    pub(crate) code: Style,
    pub(crate) link: Style,
    pub(crate) quote: Style,
    pub(crate) error: Style,
    pub(crate) warning: Style,
    pub(crate) ok: Style,
    /// Added lines, and changed words within them.
    pub(crate) added: Style,
    pub(crate) added_word: Style,
    /// Removed lines, and changed words within them.
    pub(crate) removed: Style,
    pub(crate) removed_word: Style,
    // Tokens of program text.
    pub(crate) keyword: Style,
    pub(crate) string: Style,
    pub(crate) comment: Style,
    pub(crate) number: Style,
    pub(crate) function: Style,
    pub(crate) type_name: Style,
    pub(crate) constant: Style,
    /// Names of attributes, keys and properties.
    pub(crate) key: Style,
    /// Names of elements in markup.
    pub(crate) tag: Style,
}

impl Theme {
    /// Returns the theme with the sixteen colours of the terminal's own palette, which is legible
    /// on dark and light backgrounds.
    pub(crate) const fn ansi() -> Self {
        let plain = Self::plain();
        Theme {
            accent: Style::new().fg(Color::Cyan),
            heading: plain.heading.fg(Color::Cyan),
            code: Style::new().fg(Color::Magenta),
            link: plain.link.fg(Color::Blue),
            error: Style::new().fg(Color::Red),
            warning: Style::new().fg(Color::Yellow),
            ok: Style::new().fg(Color::Green),
            added: Style::new().fg(Color::Green),
            added_word: Style::new().fg(Color::Green).add_modifier(Modifier::REVERSED),
            removed: Style::new().fg(Color::Red),
            removed_word: Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED),
            keyword: Style::new().fg(Color::Magenta),
            string: Style::new().fg(Color::Green),
            number: Style::new().fg(Color::Cyan),
            function: Style::new().fg(Color::Blue),
            type_name: Style::new().fg(Color::Yellow),
            constant: Style::new().fg(Color::Cyan),
            key: Style::new().fg(Color::Blue),
            tag: Style::new().fg(Color::Red),
            ..plain
        }
    }

    /// Returns the theme without colours.
    pub(crate) const fn plain() -> Self {
        let none = Style::new();
        let bold = none.add_modifier(Modifier::BOLD);
        Theme {
            text: none,
            dim: none.add_modifier(Modifier::DIM),
            accent: bold,
            user: bold,
            heading: bold,
            strong: bold,
            emphasis: none.add_modifier(Modifier::ITALIC),
            struck: none.add_modifier(Modifier::CROSSED_OUT),
            code: bold,
            link: none.add_modifier(Modifier::UNDERLINED),
            quote: none.add_modifier(Modifier::ITALIC),
            error: bold,
            warning: bold,
            ok: none,
            added: none,
            added_word: none.add_modifier(Modifier::REVERSED),
            removed: none,
            removed_word: none.add_modifier(Modifier::REVERSED),
            keyword: bold,
            string: none,
            comment: none.add_modifier(Modifier::DIM),
            number: none,
            function: none,
            type_name: none,
            constant: none,
            key: none,
            tag: none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_theme_has_no_colours_and_the_other_uses_the_palette() {
        let plain = format!("{:?}", Theme::plain());
        for colour in ["cyan", "blue", "red", "green", "yellow", "magenta", "Rgb", "Indexed"] {
            assert!(!plain.contains(colour), "{colour}: {plain}");
        }
        let ansi = format!("{:?}", Theme::ansi());
        assert!(
            ansi.contains("red") && !ansi.contains("Rgb") && !ansi.contains("Indexed"),
            "{ansi}"
        );
    }
}
