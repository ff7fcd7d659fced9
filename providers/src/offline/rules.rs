//! Rules that map the words of a prompt to calls.

use std::sync::Arc;

use loopwright_core::tool::ToolSpec;
use serde_json::{Value, json};

use super::words::{Call, Words};

type Tools<'t> = &'t [Arc<ToolSpec>];
type Rule = fn(&Words<'_>, Tools<'_>) -> Vec<Call>;

/// Returns the calls of the first matching rule.
pub(super) fn calls(words: &Words<'_>, tools: Tools<'_>) -> Vec<Call> {
    let rules: [Rule; 4] = [
        // A tool's own name: that tool, with arguments from the prompt.
        by_name,
        // "write", "create" or "save", a path and a text: a tool named …write….
        write_file,
        // A path: a tool named …read…. "list", "directory", "folder": a tool named …list….
        read_or_list,
        // Two numbers and an operator: a tool named add, sub…, mul…, div… or calc….
        calculate,
    ];
    rules.iter().map(|rule| rule(words, tools)).find(|calls| !calls.is_empty()).unwrap_or_default()
}

/// The operators, with the names of their tools.
const OPERATORS: [(&[&str], &[&str]); 4] = [
    (&["+", "plus", "sum", "add"], &["add", "sum", "plus"]),
    (&["-", "minus", "subtract"], &["sub", "minus"]),
    (&["*", "x", "×", "times", "multiply", "multiplied"], &["mul", "times", "product"]),
    (&["/", "÷", "over", "divide", "divided"], &["div"]),
];

fn by_name(words: &Words<'_>, tools: Tools<'_>) -> Vec<Call> {
    let about_files = |tool: &ToolSpec| {
        ["read", "list", "write"].iter().any(|verb| tool.name.contains(verb))
            && property(tool, &["path", "file"]).is_some()
    };
    let plain = |name: &str| name.replace(['_', '-'], " ").to_lowercase();
    let prompt = words.prompt.to_lowercase();
    let named = |tool: &&Arc<ToolSpec>| {
        let spelled = tool.name.contains(['_', '-']) && prompt.contains(&plain(&tool.name));
        words.has(&[&tool.name]) || (spelled && !about_files(tool))
    };
    // "read" and "list" are common words. If the prompt has paths, the rules for files fit better.
    let other = |tool: &&Arc<ToolSpec>| {
        !(about_files(tool) && (!words.paths.is_empty() || words.has(&["files"])))
    };
    tools.iter().filter(named).filter(other).map(|tool| words.call(tool)).collect()
}

fn write_file(words: &Words<'_>, tools: Tools<'_>) -> Vec<Call> {
    let (Some(path), Some(tool)) = (words.paths.first(), with_path(tools, "write")) else {
        return Vec::new();
    };
    let Some(content) = property(tool, &["content", "text", "data"]) else {
        return Vec::new();
    };
    if !words.has(&["write", "create", "save", "put", "make"]) {
        return Vec::new();
    }
    let markers =
        [" containing ", " with the content ", " with the text ", " with ", " saying ", ": "];
    let after = markers
        .iter()
        .find_map(|marker| words.prompt.split_once(marker))
        .map(|(_, after)| after.trim());
    let quoted = words.quoted.iter().copied().find(|text| text != path);
    let Some(text) = quoted.or(after) else {
        return Vec::new();
    };
    let mut call = words.call(tool);
    call.arguments[path_of(tool)] = json!(path);
    call.arguments[content] = json!(text);
    vec![call]
}

fn read_or_list(words: &Words<'_>, tools: Tools<'_>) -> Vec<Call> {
    let about = |tool: &ToolSpec, path: &str| {
        let mut call = words.call(tool);
        call.arguments[path_of(tool)] = Value::from(path);
        call
    };
    let (directories, files): (Vec<&str>, Vec<&str>) =
        words.paths.iter().partition(|path| path.ends_with('/') || **path == ".");
    let mut calls = Vec::new();
    if let Some(read) = with_path(tools, "read") {
        calls.extend(files.iter().map(|path| about(read, path)));
    }
    let listing = words.has(&["list", "ls"])
        || files.is_empty() && words.has(&["directory", "folder", "files", "dir"]);
    if let Some(list) = with_path(tools, "list").filter(|_| listing || !directories.is_empty()) {
        if listing && directories.is_empty() {
            // "list src/tools": the argument is a directory, however it is written.
            let named = files.iter().copied().find(|path| !path.contains('.'));
            calls.retain(|call| {
                Some(&call.arguments[path_of(list)]) != named.map(Value::from).as_ref()
            });
            calls.push(about(list, named.unwrap_or(".")));
        }
        calls.extend(directories.iter().map(|path| about(list, path)));
    }
    calls
}

fn calculate(words: &Words<'_>, tools: Tools<'_>) -> Vec<Call> {
    if words.numbers.len() < 2 {
        let sum = words.words.iter().find(|word| is_sum(word));
        return sum.and_then(|sum| calculator(tools, sum)).into_iter().collect();
    }
    let operation = OPERATORS.iter().find(|(signs, _)| words.has(signs));
    let Some((signs, names)) = operation else {
        return Vec::new();
    };
    let tool =
        tools.iter().find(|tool| names.iter().any(|name| tool.name.to_lowercase().contains(name)));
    if let Some(tool) = tool {
        return vec![words.call(tool)];
    }
    let numbers: Vec<String> = words.numbers.iter().map(f64::to_string).collect();
    calculator(tools, &numbers.join(&format!(" {} ", signs[0]))).into_iter().collect()
}

/// Returns whether a word is a whole expression, such as `2+3`.
fn is_sum(word: &str) -> bool {
    let sign = |c: char| "+-*/".contains(c);
    word.contains(sign)
        && word.contains(|c: char| c.is_ascii_digit())
        && !word.contains(char::is_alphabetic)
}

fn calculator(tools: Tools<'_>, sum: &str) -> Option<Call> {
    let tool = tools
        .iter()
        .find(|tool| ["calc", "eval", "math"].iter().any(|name| tool.name.contains(name)))?;
    let first = tool.schema["required"][0].as_str().or(property(tool, &["expression", "input"]))?;
    Some(Call { tool: tool.name.clone(), arguments: json!({ first: sum }) })
}

/// Returns the tool with this verb in its name and a path among its parameters.
fn with_path<'t>(tools: Tools<'t>, verb: &str) -> Option<&'t ToolSpec> {
    let fits = |tool: &&Arc<ToolSpec>| {
        tool.name.contains(verb) && property(tool, &["path", "file"]).is_some()
    };
    tools.iter().find(fits).map(|tool| &**tool)
}

fn path_of(tool: &ToolSpec) -> &str {
    property(tool, &["path", "file"]).unwrap_or("path")
}

/// Returns the tool's property whose name contains one of these words. Earlier words win.
fn property<'t>(tool: &'t ToolSpec, names: &[&str]) -> Option<&'t str> {
    let properties = tool.schema["properties"].as_object()?;
    names
        .iter()
        .find_map(|name| properties.keys().find(|key| key.contains(name)))
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<Arc<ToolSpec>> {
        let tool = |name: &str, fields: &[(&str, &str)]| {
            let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            let properties: Value = fields
                .iter()
                .map(|(name, kind)| (name.to_string(), json!({"type": kind})))
                .collect();
            let schema = json!({"type": "object", "properties": properties, "required": names});
            Arc::new(ToolSpec::with_schema(name, "", schema))
        };
        vec![
            tool("read_file", &[("path", "string")]),
            tool("write_file", &[("path", "string"), ("content", "string")]),
            tool("list_directory", &[("path", "string")]),
            tool("add", &[("a", "integer"), ("b", "integer")]),
            tool("calculator", &[("expression", "string")]),
            tool("weather", &[("city", "string")]),
        ]
    }

    fn called(prompt: &str) -> Vec<String> {
        let calls = calls(&Words::of(prompt), &tools());
        calls.iter().map(|call| format!("{}{}", call.tool, call.arguments)).collect()
    }

    #[test]
    fn a_named_value_precedes_the_first_choice_and_the_default() {
        let documented = json!({"oneOf": [
            {"const": "forest", "description": "Of forests."},
            {"const": "meadow", "description": "Of meadows."},
        ]});
        let schema = json!({
            "type": "object",
            "properties": {
                "drawer": {"$ref": "#/$defs/Drawer"},
                "size": {"enum": ["small", "big"]},
                "count": {"type": "integer", "default": 1},
            },
            "required": ["drawer", "size", "count"],
            "$defs": {"Drawer": documented},
        });
        let tools = [Arc::new(ToolSpec::with_schema("open", "", schema))];
        let arguments = |prompt: &str| {
            let calls = calls(&Words::of(prompt), &tools);
            calls.into_iter().map(|call| call.arguments).next().unwrap()
        };
        let named = arguments("Call open with drawer=meadow and size=\"BIG\" and count=3");
        assert_eq!(named, json!({"drawer": "meadow", "size": "big", "count": 3}));
        let none = arguments("Call open");
        assert_eq!(none, json!({"drawer": "forest", "size": "small", "count": 1}));
        let mentioned = arguments("Call open for the meadow");
        assert_eq!(mentioned["drawer"], "meadow");
        // The check of the arguments refuses it, and says which values are allowed.
        assert_eq!(arguments("Call open with drawer=desert")["drawer"], "desert");
    }

    #[test]
    fn the_table() {
        let cases: [(&str, &[&str]); 15] = [
            ("Hello, how are you?", &[]),
            ("Pi is 3.14, e.g. in and/or terms.", &[]),
            ("What does `Cargo.toml` say?", &[r#"read_file{"path":"Cargo.toml"}"#]),
            (
                "Compare src/lib.rs and README.md.",
                &[r#"read_file{"path":"src/lib.rs"}"#, r#"read_file{"path":"README.md"}"#],
            ),
            ("Which files are here?", &[r#"list_directory{"path":"."}"#]),
            ("list src/", &[r#"list_directory{"path":"src/"}"#]),
            ("List the files in src/tools", &[r#"list_directory{"path":"src/tools"}"#]),
            (
                "Create notes.txt with \"hi there\"",
                &[r#"write_file{"content":"hi there","path":"notes.txt"}"#],
            ),
            (
                "write out/a.md containing hello you",
                &[r#"write_file{"content":"hello you","path":"out/a.md"}"#],
            ),
            ("add 2 and 3", &[r#"add{"a":2,"b":3}"#]),
            ("What is 2 + 3?", &[r#"add{"a":2,"b":3}"#]),
            ("What is 7 times 6?", &[r#"calculator{"expression":"7 * 6"}"#]),
            ("What is 7*6?", &[r#"calculator{"expression":"7*6"}"#]),
            ("weather in Rome", &[r#"weather{"city":"Rome"}"#]),
            (
                "use weather with city=Oslo and add with b: 1, a: 5",
                &[r#"add{"a":5,"b":1}"#, r#"weather{"city":"Oslo"}"#],
            ),
        ];
        for (prompt, expected) in cases {
            assert_eq!(called(prompt), expected, "{prompt}");
        }
    }
}
