//! Tool calls of a public benchmark against the validator, and prefixes of JSON against the view of
//! a stream: `cargo test --test vectors`, not part of plain `cargo test`.
//!
//! Reads `$LOOPWRIGHT_SHARED/vectors` (by default `shared` beside the repository) and fails without
//! it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed check is a failed test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::Tool;
use loopwright_core::model::PartialJson;
use loopwright_core::testing::TestTool;
use loopwright_core::tool::{ToolSpec, Toolbox};
use serde_json::Value;
use serde_json::value::RawValue;

/// Returns the lines of a file of vectors.
fn vectors(name: &str) -> Vec<String> {
    let shared = std::env::var_os("LOOPWRIGHT_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")),
        PathBuf::from,
    );
    let path = shared.join("vectors").join(name);
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// Returns a tool name in the valid form that a source would give it.
fn legal(name: &str) -> String {
    name.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'), "_")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn toolbox(line: &Value) -> Toolbox {
    let tools = list(line, "tools").iter().map(|tool| {
        let spec = ToolSpec::with_schema(
            legal(tool["name"].as_str().unwrap()),
            "",
            tool["parameters"].clone(),
        );
        Arc::new(TestTool::new("x").spec(|_| spec)) as Arc<dyn Tool>
    });
    Toolbox::new().with_all(tools).unwrap_or_else(|why| panic!("{}: {why}", line["id"]))
}

/// Returns the validator's result for a call, as a model would write it.
fn validated(tools: &Toolbox, call: &Value) -> Result<Value, String> {
    tools.validate(&legal(call["name"].as_str().unwrap()), &call["arguments"].to_string())
}

/// Returns the property that was spoilt in a call: the word in backticks.
fn property(call: &Value) -> &str {
    call["why"]
        .as_str()
        .and_then(|why| why.split('`').nth(1))
        .unwrap_or_else(|| panic!("no property in {call}"))
}

#[test]
fn calls_validate_invalid_ones_are_refused_and_coercible_ones_become_what_is_meant() {
    let (mut valid, mut invalid, mut coerced, mut wrong) = (0, 0, 0, Vec::new());
    for line in vectors("toolcalls.jsonl") {
        let line: Value = serde_json::from_str(&line).unwrap();
        let tools = toolbox(&line);
        let mut say = |what: &str, call: &Value, got: &dyn std::fmt::Debug| {
            wrong.push(format!("{} {what}: {call}\n  {got:?}", line["id"]));
        };
        for call in list(&line, "calls") {
            valid += 1;
            match validated(&tools, call) {
                Ok(arguments) if arguments == call["arguments"] => {}
                got => say("does not validate as it is", call, &got),
            }
        }
        for call in list(&line, "invalid") {
            invalid += 1;
            match validated(&tools, call) {
                Err(why) if why.contains(&format!("/{}: ", property(call))) => {}
                got => say("is not refused with its path", call, &got),
            }
        }
        for call in list(&line, "coercible") {
            coerced += 1;
            match validated(&tools, call) {
                Ok(arguments) if arguments == call["coerced"] => {}
                got => say("does not become what is meant", call, &got),
            }
        }
    }
    println!(
        "{valid} calls validate, {invalid} are refused with their path, {coerced} are coerced; \
         {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(valid > 0 && invalid > 0 && coerced > 0, "there is nothing of some kind");
}

/// Returns the partial value of a text that comes in these chunks.
fn shown<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Option<Value> {
    let mut partial = PartialJson::new();
    chunks.into_iter().for_each(|chunk| partial.push(chunk));
    partial.value().cloned()
}

/// Returns whether two values are equal, with numbers by value: `-12.5e3` is -12500.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Returns `value` without blanks at the end of its strings.
fn trimmed(value: &Value) -> Value {
    match value {
        Value::String(text) => text.trim_end().into(),
        Value::Array(list) => list.iter().map(trimmed).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), trimmed(value))).collect()
        }
        other => other.clone(),
    }
}

const BLANK: &str = "a blank at the end of an open string is a part of it, and is shown";
const HALF: &str =
    "half a surrogate pair is no text of Rust, and is held back until the other half comes";

/// Returns `None` if the vector is met, the reason if it is deliberately not met, and otherwise an
/// error.
fn judge(
    vector: &BTreeMap<String, Box<RawValue>>,
    input: &str,
) -> Result<Option<&'static str>, String> {
    let got = shown([input]);
    let letters = shown(input.split_inclusive(|_: char| true));
    if got != letters {
        return Err(format!("{input:?} shows {got:?}, and letter by letter {letters:?}"));
    }
    let raw = vector["expected"].get();
    let (expected, half) = match serde_json::from_str::<Value>(raw) {
        Ok(expected) => (expected, false),
        Err(_) => (
            serde_json::from_str(&raw.replace("\\ud83d\"", "\"")).map_err(|why| why.to_string())?,
            true,
        ),
    };
    match &got {
        None if vector["no_value"].get() == "true" => Ok(None),
        Some(got) if vector["no_value"].get() == "false" && same(got, &expected) => {
            Ok(half.then_some(HALF))
        }
        Some(got) if input.ends_with(char::is_whitespace) && same(&trimmed(got), &expected) => {
            Ok(Some(BLANK))
        }
        _ => Err(format!("{input:?} shows {got:?}, and not {expected}")),
    }
}

#[test]
fn arguments_that_stream_are_shown_as_expected() {
    let (mut met, mut detached, mut wrong) =
        (0_usize, BTreeMap::<&str, Vec<String>>::new(), Vec::new());
    for line in vectors("partial-json.jsonl") {
        let vector: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&line).unwrap();
        let input: String = serde_json::from_str(vector["input"].get()).unwrap();
        match judge(&vector, &input) {
            Ok(None) => met += 1,
            Ok(Some(why)) => detached.entry(why).or_default().push(vector["id"].to_string()),
            Err(why) => wrong.push(format!("{}: {why}", vector["id"])),
        }
    }
    let others: usize = detached.values().map(Vec::len).sum();
    println!("{met} of {} prefixes are shown as expected", met + others + wrong.len());
    detached.iter().for_each(|(why, ids)| println!("{}: {why} ({})", ids.len(), ids.join(" ")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(met > 0 && met * 100 >= (met + others) * 95, "fewer than 95 % are met");
}
