//! The most informative argument of a call, for its header.

use serde_json::Value;

use crate::wording;

/// Names of arguments, most informative first.
const HEADLINE_ARGUMENTS: &[&str] = &[
    "command",
    "file_a",
    "pattern",
    "path",
    "file_path",
    "file",
    "url",
    "query",
    "question",
    "name",
    "title",
    "prompt",
    "task",
];
/// Number of bytes of incomplete JSON that are searched.
const MAX_SCANNED_BYTES: usize = 2_000;

/// Returns the argument on one line: the path of a file, the command, the pattern; otherwise all
/// arguments.
pub(super) fn complete(tool: &str, arguments: &Value) -> String {
    let text =
        |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let (Some(a), Some(b)) = (text("file_a"), text("file_b")) {
        return format!("{a} → {b}");
    }
    let Some((name, headline)) =
        HEADLINE_ARGUMENTS.iter().find_map(|name| Some((*name, text(name)?)))
    else {
        if let Some(list) = wording::todos(arguments) {
            return list;
        }
        return match arguments {
            Value::Object(none) if none.is_empty() => String::new(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
    };
    let scope = text("path").or(text("include")).filter(|_| name == "pattern");
    match scope {
        Some(scope) => format!("{headline} in {scope}"),
        None if name == "command" => first_line(headline),
        None if tool == "read_file" => {
            match (arguments["offset"].as_i64(), arguments["limit"].as_i64()) {
                (Some(from), Some(count)) => format!("{headline}:{from}+{count}"),
                (Some(from), None) => format!("{headline}:{from}"),
                _ => headline.to_owned(),
            }
        }
        None => headline.to_owned(),
    }
}

/// Returns as much of the argument as incomplete JSON contains.
pub(super) fn partial(raw: &str) -> String {
    let raw = &raw[..raw.floor_char_boundary(MAX_SCANNED_BYTES)];
    HEADLINE_ARGUMENTS
        .iter()
        .find_map(|name| string(raw, name))
        .map_or_else(String::new, |text| first_line(&text))
}

/// Returns the string with this name, as far as it is written.
fn string(raw: &str, name: &str) -> Option<String> {
    let quoted = format!("\"{name}\"");
    let rest = raw.match_indices(&quoted).find_map(|(at, _)| {
        // Within a string the quotes would be escaped; a value is not followed by a colon.
        let before = raw[..at].trim_end();
        let rest = raw[at + quoted.len()..].trim_start().strip_prefix(':')?.trim_start();
        before.ends_with(['{', ',']).then_some(rest)
    })?;
    let rest = rest.strip_prefix('"')?;
    let mut escaped = false;
    let end = rest.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let text = &rest[..end.unwrap_or(rest.len())];
    // A truncated escape is at most five characters long.
    let whole =
        |cut: usize| text.get(..text.len().checked_sub(cut)?).map(|text| format!("\"{text}\""));
    (0..6).find_map(|cut| serde_json::from_str(&whole(cut)?).ok())
}

fn first_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_informative_argument_is_selected() {
        for (tool, arguments, headline) in [
            ("edit_file", json!({"path": "src/a.rs", "old_string": "x"}), "src/a.rs"),
            ("execute_command", json!({"command": "cargo test\necho"}), "cargo test …"),
            ("search_files", json!({"pattern": "x+", "path": "src"}), "x+ in src"),
            ("diff", json!({"file_a": "a", "file_b": "b"}), "a → b"),
            ("read_file", json!({"path": "a", "offset": 5}), "a:5"),
            ("other", json!({"n": 1, "list": [true]}), r#"{"list":[true],"n":1}"#),
            ("other", json!({}), ""),
        ] {
            assert_eq!(complete(tool, &arguments), headline);
        }
    }

    #[test]
    fn incomplete_json_yields_as_much_as_it_contains() {
        for (raw, headline) in [
            ("", ""),
            (r#"{"pa"#, ""),
            (r#"{"path": "src/m"#, "src/m"),
            (r#"{"path": "a\"b\"#, "a\"b"),
            (r#"{"path": "a\u00e"#, "a"),
            (r#"{"path": "a\u00e9"#, "aé"),
            (r#"{"content": "\"path\": \"no\"", "path": "yes"}"#, "yes"),
            (r#"{"path": 3}"#, ""),
            (r#"{"command":"a\nb"}"#, "a …"),
        ] {
            assert_eq!(partial(raw), headline, "{raw}");
        }
    }
}
