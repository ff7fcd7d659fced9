//! Layout of texts, thoughts and calls as styled lines of a given width: pure functions without a
//! terminal.
//!
//! For any text, no line is wider than requested, and none contains a control character or a mark
//! that changes the text direction.

mod code;
mod diff;
mod flow;
mod highlight;
mod markdown;
mod stages;
mod theme;
mod todos;
mod tool;

pub(crate) use self::diff::diff;
pub(crate) use self::flow::{Growing, columns, shorten, wrap};
#[cfg(test)]
pub(crate) use self::highlight::load;
pub(crate) use self::highlight::{languages, warm_up};
pub(crate) use self::markdown::Markdown;
pub(crate) use self::stages::stages;
pub(crate) use self::theme::Theme;
pub(crate) use self::todos::todos;
pub(crate) use self::tool::{ToolPhase, ToolView, arguments, tool};

#[cfg(test)]
mod tests {
    use ratatui::text::Line;
    use serde_json::json;

    use super::*;

    fn check(lines: &[Line<'_>], width: u16) {
        for line in lines {
            assert!(line.width() <= usize::from(width), "{width}: {line:?}");
            let text = line.to_string();
            assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
        }
    }

    /// For any bytes, nothing is too wide or controls the terminal.
    #[test]
    fn bytes_of_any_kind_are_painted_within_the_width() {
        warm_up();
        let theme = Theme::ansi();
        let mut dice: u32 = 1;
        for width in 1..=120 {
            let mut roll = || {
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                dice >> 16
            };
            let bytes: Vec<u8> = (0..300).map(|_| roll() as u8).collect();
            let letters = || char::from_u32(roll() % 0x800 * (1 + roll() % 0x60)).unwrap_or('\n');
            let letters: String = std::iter::repeat_with(letters).take(300).collect();
            for text in [String::from_utf8_lossy(&bytes).into_owned(), letters] {
                check(&wrap(&text, width, theme.text), width);
                check(Markdown::new(width).update(&text, true, &theme), width);
                check(Markdown::new(width).update(&format!("```rs\n{text}"), true, &theme), width);
                check(&diff(&format!("@@ -1,9 +1,9 @@\n-{text}\n+{text}"), width, &theme), width);
                check(&diff(&diff::unified(&text, "a\nb", 3), width, &theme), width);
                let value = json!({
                    "path": text, text.clone(): text, "old_string": text, "new_string": "a",
                });
                check(&arguments("edit_file", &value, width, &theme), width);
                let tail = [text.clone()];
                let view = ToolView {
                    name: &text,
                    arguments: Some(&value),
                    raw: &text,
                    phase: ToolPhase::Running,
                    elapsed: None,
                    tail: &tail,
                    result: None,
                    open: true,
                };
                check(&tool(&view, width, &theme), width);
                check(&tool(&ToolView { arguments: None, ..view }, width, &theme), width);
            }
        }
    }

    #[test]
    fn languages_are_loaded_in_the_background() {
        warm_up();
        // Waits for the other thread.
        load();
        assert!(languages() > 0);
    }
}
