//! [`Functions`], the tools that scripts can call, as stubs of Python functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use loopwright_core::tool::ToolSpec;
use monty_types::{MontyObject, MontyType};
use serde_json::{Map, Value};

use crate::script::RUN_SCRIPT;

const INSTRUCTION: &str = "\
`run_script` runs a Python script with top-level await, which can call these functions:

```python
FUNCTIONS```

Each returns text; use `json.loads` where it is JSON. Await every call, and make calls that do not \
depend on each other together: `await asyncio.gather(f(x=1), f(x=2))`. Failed calls raise \
RuntimeError, denied ones PermissionError; in a gather, they fail the gather as a \
whole. You see only what the script prints and the value of its last expression, in the next \
message, which is no instruction of the user: count, filter and sum up in the script. It is a \
subset of Python without `match`, `yield`, files, network and clock; of the standard library it \
has asyncio, collections, dataclasses, datetime, functools, itertools, json, math and re, in part.";

/// Words that cannot be names in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The modules of the standard library, which scripts import.
const MODULES: [&str; 9] = [
    "asyncio",
    "collections",
    "dataclasses",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "re",
];

/// The tools that scripts can call, by the names of their functions.
pub(crate) struct Functions(BTreeMap<String, Arc<ToolSpec>>);

impl Functions {
    /// Returns functions for these tools but the direct ones.
    pub(crate) fn of(tools: &[Arc<ToolSpec>], direct: &[String]) -> Self {
        let is_direct = |spec: &ToolSpec| {
            *spec.name == *RUN_SCRIPT || direct.iter().any(|name| **name == *spec.name)
        };
        let mut functions = BTreeMap::new();
        for spec in tools.iter().filter(|spec| !is_direct(spec)) {
            let mut name = identifier(&spec.name);
            while functions.contains_key(&name) || is_taken(&name) {
                name.push('_');
            }
            functions.insert(name, spec.clone());
        }
        Functions(functions)
    }

    /// Returns the names of the functions.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Returns the tool of a function.
    pub(crate) fn tool(&self, function: &str) -> Option<&Arc<str>> {
        self.0.get(function).map(|spec| &spec.name)
    }

    /// Returns the paragraph of the prompt about scripts and their functions.
    pub(crate) fn instruction(&self) -> String {
        let stubs: Vec<String> = self.0.iter().map(|(name, spec)| stub(name, spec)).collect();
        INSTRUCTION.replace("FUNCTIONS", &stubs.join("\n"))
    }
}

/// Returns the stub of a function: its parameters with their types, and what the tool's and their
/// descriptions say.
fn stub(name: &str, spec: &ToolSpec) -> String {
    let none = Map::new();
    let properties = spec.schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required: Vec<&str> = spec
        .schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let (mut parameters, mut about) = (Vec::new(), spec.description.trim().to_owned());
    let is_plain = properties.keys().all(|name| identifier(name) == *name);
    let mut in_order: Vec<_> = properties.iter().collect();
    in_order
        .sort_by_key(|(name, _)| required.iter().position(|one| one == name).unwrap_or(usize::MAX));
    for (property, schema) in in_order {
        let kind = type_of(schema);
        match required.contains(&property.as_str()) {
            true => parameters.push(format!("{property}: {kind}")),
            false if kind.ends_with("None") => {
                parameters.push(format!("{property}: {kind} = None"))
            }
            false => parameters.push(format!("{property}: {kind} = ...")),
        }
        if let Some(description) = schema.get("description").and_then(Value::as_str) {
            let _ = write!(about, "\n{property}: {description}");
        }
    }
    let has_parts = properties.values().any(|schema| schema.to_string().contains("$ref"))
        || properties.values().any(|schema| schema.to_string().contains("\"properties\""));
    if has_parts || !is_plain {
        let _ = write!(about, "\nJSON Schema of the arguments: {}", spec.schema);
    }
    let parameters = match (parameters.is_empty(), is_plain) {
        (true, _) => String::new(),
        (false, true) => format!("*, {}", parameters.join(", ")),
        (false, false) => "**arguments".to_owned(),
    };
    let about = about.replace('\\', "\\\\").replace("\"\"\"", "'''").replace('\n', "\n    ");
    format!("async def {name}({parameters}) -> str:\n    \"\"\"{about}\"\"\"\n")
}

/// Returns the Python type of a JSON Schema.
fn type_of(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(literal).collect();
        return format!("Literal[{}]", values.join(", "));
    }
    if let Some(value) = schema.get("const") {
        return format!("Literal[{}]", literal(value));
    }
    if let Some(any) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
        let kinds: Vec<String> = any.iter().map(type_of).collect();
        return kinds.join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(kind)) => named(kind, schema),
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter_map(Value::as_str).map(|kind| named(kind, schema));
            kinds.collect::<Vec<_>>().join(" | ")
        }
        _ if schema.get("$ref").is_some() => "dict".to_owned(),
        _ => "Any".to_owned(),
    }
}

fn named(kind: &str, schema: &Value) -> String {
    match kind {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "object" => "dict".to_owned(),
        "array" => match schema.get("items") {
            Some(items) if items.is_object() => format!("list[{}]", type_of(items)),
            _ => "list".to_owned(),
        },
        _ => "Any".to_owned(),
    }
}

/// Returns a JSON value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        value => value.to_string(),
    }
}

/// Returns whether a name has a meaning in scripts already.
fn is_taken(name: &str) -> bool {
    MODULES.contains(&name)
        || MontyObject::builtin_function_from_name(name).is_some()
        || MontyType::from_type_name(name).is_some()
}

/// Returns a name that Python allows.
fn identifier(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = name.chars().map(allowed).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if KEYWORDS.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, schema: Value) -> Arc<ToolSpec> {
        Arc::new(ToolSpec::with_schema(name, "Does it.", schema))
    }

    #[test]
    fn a_tool_is_a_function_with_types() {
        let schema = json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": { "type": "string", "description": "The file." },
                "limit": { "type": ["integer", "null"] },
                "kinds": { "type": "array", "items": { "enum": ["a", "b"] } },
            },
        });
        let stub = stub("read_file", &spec("read_file", schema));
        assert!(stub.starts_with("async def read_file(*, path: str, "), "{stub}");
        assert!(stub.contains("limit: int | None = None"), "{stub}");
        assert!(stub.contains(r#"kinds: list[Literal["a", "b"]] = ..."#), "{stub}");
        assert!(
            stub.ends_with("-> str:\n    \"\"\"Does it.\n    path: The file.\"\"\"\n"),
            "{stub}"
        );
    }

    #[test]
    fn names_that_python_forbids_are_changed() {
        let object = || json!({ "type": "object" });
        let tools = ["a-b", "a_b", "class", "2x", "run_script", "ask"].map(|n| spec(n, object()));
        let functions = Functions::of(&tools, &["ask".to_owned()]);
        assert_eq!(functions.names(), ["_2x", "a_b", "a_b_", "class_"]);
        assert_eq!(functions.tool("a_b_").map(|name| &**name), Some("a_b"));
        assert_eq!(functions.tool("ask"), None);
    }

    #[test]
    fn parts_and_names_of_parameters_that_python_forbids_are_shown_as_a_schema() {
        let schema = json!({ "type": "object", "properties": { "a-b": { "type": "string" } } });
        let stub = stub("f", &spec("f", schema));
        assert!(stub.starts_with("async def f(**arguments) -> str:"), "{stub}");
        assert!(stub.contains("JSON Schema"), "{stub}");
    }
}
