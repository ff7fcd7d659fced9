//! Output for a terminal as plain text: without colours, and with overwritten lines in their final
//! state.

use std::borrow::Cow;

/// Removes escape sequences, and in each line what a carriage return overwrites.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(['\x1b', '\r']) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&rest[..at]);
        rest = after_escape(&rest[at + 1..]);
    }
    out.push_str(rest);
    let mut lines = String::with_capacity(out.len());
    for line in out.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        lines.push_str(line.trim_end_matches('\r').rsplit('\r').next().unwrap_or(line));
        lines.push_str(end);
    }
    lines.into()
}

/// Returns the text behind a sequence whose escape character is already removed.
fn after_escape(text: &str) -> &str {
    let mut letters = text.char_indices();
    let Some((_, first)) = letters.next() else {
        return text;
    };
    let end = match first {
        // Up to a final letter.
        '[' => {
            letters.find(|(_, c)| !matches!(c, ' '..='?')).map_or(text.len(), |(at, c)| match c {
                '@'..='~' => at + 1,
                _ => at,
            })
        }
        // Up to a bell or another escape; a title, a link or the like.
        ']' | 'P' | '_' | '^' | 'X' => {
            match letters.find(|(_, c)| matches!(c, '\x07' | '\x1b' | '\n')) {
                Some((at, '\x07')) => at + 1,
                Some((at, '\x1b')) if text[at + 1..].starts_with('\\') => at + 2,
                Some((at, _)) => at,
                None => text.len(),
            }
        }
        ' '..='/' => letters
            .find(|(_, c)| !matches!(c, ' '..='/'))
            .map_or(text.len(), |(at, c)| at + c.len_utf8()),
        '0'..='~' => 1,
        _ => 0,
    };
    &text[end..]
}

#[cfg(test)]
mod tests {
    use super::without_escapes;

    #[test]
    fn colours_titles_and_overwritten_text_are_removed() {
        for (printed, text) in [
            ("\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mmore\x1b[m", "red more"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
            ("10%\r20%\r100%\ndone\r\n", "100%\ndone\n"),
            ("\x1b(Ba\x1b7b\x1b=c\x1b", "abc"),
            ("a\x1b[31", "a"),
            ("\x1b[31é\x1bé\x1b]unclosed\nnext", "éé\nnext"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_escapes(printed), text, "{printed:?}");
        }
    }
}
