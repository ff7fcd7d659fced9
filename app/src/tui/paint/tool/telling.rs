//! The one argument that tells what a call is about.

use serde_json::Value;

/// The names of arguments that tell most, the best first.
const TELLING: &[&str] = &[
    "command",
    "file_a",
    "pattern",
    "path",
    "file_path",
    "file",
    "url",
    "query",
    "name",
    "title",
    "prompt",
    "task",
];
/// It is looked for only at the beginning of JSON that is being written, in bytes.
const BEGINNING: usize = 2_000;

/// On one line: the path of a file, the command, the pattern; or else all arguments.
pub(super) fn argument(tool: &str, arguments: &Value) -> String {
    let text =
        |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let (Some(a), Some(b)) = (text("file_a"), text("file_b")) {
        return format!("{a} → {b}");
    }
    let Some((name, telling)) = TELLING.iter().find_map(|name| Some((*name, text(name)?))) else {
        return match arguments {
            Value::Object(none) if none.is_empty() => String::new(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
    };
    let place = text("path").or(text("include")).filter(|_| name == "pattern");
    match place {
        Some(place) => format!("{telling} in {place}"),
        None if name == "command" => first_line(telling),
        None if tool == "read_file" => {
            match (arguments["offset"].as_i64(), arguments["limit"].as_i64()) {
                (Some(from), Some(count)) => format!("{telling}:{from}+{count}"),
                (Some(from), None) => format!("{telling}:{from}"),
                _ => telling.to_owned(),
            }
        }
        None => telling.to_owned(),
    }
}

/// The same from JSON that is not yet whole: as much as there is of it.
pub(super) fn written(raw: &str) -> String {
    let raw = &raw[..raw.floor_char_boundary(BEGINNING)];
    TELLING
        .iter()
        .find_map(|name| string(raw, name))
        .map_or_else(String::new, |text| first_line(&text))
}

/// As much as there is of the string with this name.
fn string(raw: &str, name: &str) -> Option<String> {
    let quoted = format!("\"{name}\"");
    let rest = raw.match_indices(&quoted).find_map(|(at, _)| {
        // Within a string the quotes would be escaped; a value has no colon after it.
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
    // An escape that is cut off is at most five letters long.
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
    fn the_telling_argument_is_found() {
        for (tool, arguments, telling) in [
            ("edit_file", json!({"path": "src/a.rs", "old_string": "x"}), "src/a.rs"),
            ("execute_command", json!({"command": "cargo test\necho"}), "cargo test …"),
            ("search_files", json!({"pattern": "x+", "path": "src"}), "x+ in src"),
            ("diff", json!({"file_a": "a", "file_b": "b"}), "a → b"),
            ("read_file", json!({"path": "a", "offset": 5}), "a:5"),
            ("other", json!({"n": 1, "list": [true]}), r#"{"list":[true],"n":1}"#),
            ("other", json!({}), ""),
        ] {
            assert_eq!(argument(tool, &arguments), telling);
        }
    }

    #[test]
    fn what_is_being_written_tells_as_much_as_there_is() {
        for (raw, telling) in [
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
            assert_eq!(written(raw), telling, "{raw}");
        }
    }
}
