//! Lines of JSON on standard output.

use std::io::{self, IsTerminal};

use serde::Serialize;

use super::sanitize::is_control;
use super::streams::write_stdout;

/// Writes a value as a line of JSON to standard output.
///
/// On a terminal, all control characters are escaped; JSON requires that only for some.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    if io::stdout().is_terminal() && line.contains(is_control) {
        line = escaped(&line);
    }
    line.push('\n');
    write_stdout(&line)
}

/// Returns equivalent JSON with control characters escaped. They occur only in strings, and each is
/// one UTF-16 unit.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_control(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str, json};

    use super::*;

    #[test]
    fn json_for_a_terminal_is_equivalent() {
        let value = json!({ "a\u{9b}": "\u{61c}é😀\u{202e}\u{7f}\n\u{1b}" });
        let line = escaped(&value.to_string());
        assert_eq!(line, r#"{"a\u009b":"\u061cé😀\u202e\u007f\n\u001b"}"#);
        assert_eq!(from_str::<Value>(&line).unwrap(), value);
    }
}
