//! Tools from functions: names, schemas, options and calls.

use std::time::Duration;

use loopwright::message::Content;
use loopwright::tool::{Approval, Effect};
use loopwright::{Tool, ToolContext, ToolError, tool};
use serde_json::{Value, json};

fn text(content: &Content) -> &str {
    match content {
        Content::Text { text } => text,
        other => panic!("{other:?} is no text"),
    }
}

/// Returns the text of a result, or of its error.
pub(crate) async fn call(tool: &dyn Tool, arguments: Value) -> Result<String, String> {
    let output = tool.call(&arguments, ToolContext::detached()).await;
    match output {
        Ok(output) => Ok(output.content.iter().map(text).collect()),
        Err(why) => Err(why.to_string()),
    }
}

/// Adds two integers.
///
/// Use it for sums.
#[tool(read_only)]
fn add(
    /// The first one.
    a: i64,
    /// The second one.
    #[schemars(range(min = 1, max = 9))]
    b: i64,
) -> i64 {
    a + b
}

/// C320: A tool takes three lines. Its description, its name and the schema of its arguments come
/// from the function.
#[tokio::test]
async fn a_function_describes_the_tool() {
    let add = add();
    let spec = add.spec();
    assert_eq!(&*spec.name, "add");
    assert_eq!(spec.description, "Adds two integers.\n\nUse it for sums.");
    let b = &spec.schema["properties"]["b"];
    assert_eq!(spec.schema["properties"]["a"]["description"], "The first one.");
    assert_eq!((&b["minimum"], &b["maximum"]), (&json!(1), &json!(9)));
    assert_eq!(spec.schema["required"], json!(["a", "b"]));
    assert_eq!((spec.effect, spec.sequential, spec.interruptible), (Effect::ReadOnly, false, true));
    assert_eq!(call(&add, json!({ "a": 2, "b": 3 })).await, Ok("5".to_owned()));
    assert_eq!(
        AddArgs { a: 1, b: 1 }.a,
        1,
        "the struct of the arguments has the function's visibility"
    );
}

#[tool(
    description = "Pays.",
    name = "pay-2",
    title = "Payment",
    idempotent,
    sequential,
    uninterruptible,
    timeout = "2m",
    idle_timeout = "500ms",
    approval = |args| args.euros > 100
)]
async fn pay(to: &str, note: Option<String>, euros: u32, cx: &ToolContext) -> String {
    format!("{euros} for {to}, {note:?}, in {}", cx.session_id())
}

/// C320: Options set the fields of a `ToolSpec`.
#[tokio::test]
async fn options_set_the_spec() {
    let pay = pay();
    let spec = pay.spec();
    assert_eq!((&*spec.name, spec.title.as_deref()), ("pay-2", Some("Payment")));
    assert_eq!((spec.effect, spec.sequential), (Effect::Idempotent, true));
    assert!(!spec.interruptible);
    assert_eq!(spec.timeout, Some(Duration::from_secs(120)));
    assert_eq!(spec.idle_timeout, Some(Duration::from_millis(500)));
    assert_eq!(spec.schema["required"], json!(["to", "euros"]), "the context is not an argument");
    let paid = call(&pay, json!({ "to": "Ann", "euros": 5 })).await;
    assert_eq!(paid, Ok("5 for Ann, None, in detached".to_owned()));
}

/// C321: A rule for approvals gets typed arguments. Arguments that it cannot get need an approval.
#[test]
fn a_typed_rule_fails_closed() {
    let spec = pay().spec().clone();
    let Approval::When(rule) = &spec.approval else { panic!("there is a rule") };
    let needed = |arguments: Value| rule(&arguments, &Default::default());
    assert!(!needed(json!({ "to": "Ann", "euros": 100 })));
    assert!(needed(json!({ "to": "Ann", "euros": 101 })));
    assert!(needed(json!({ "to": "Ann", "euros": -1 })), "it cannot be read");
    assert!(needed(json!({ "to": "Ann" })));
}

/// Never asks.
#[tool(approval = never)]
fn never() {}

/// Always asks.
#[tool(approval = always)]
fn always() {}

fn is_big(args: &NamedArgs) -> bool {
    args.size > 3
}

/// Asks by a function.
#[tool(approval = is_big)]
fn named(size: u8) -> u8 {
    size
}

/// C320: Without the option, the effect decides on approval. The option sets always, never or a
/// rule, which can be a function.
#[test]
fn approvals_are_those_of_the_option() {
    assert!(matches!(add().spec().approval, Approval::ByEffect));
    assert!(matches!(never().spec().approval, Approval::Never));
    assert!(matches!(always().spec().approval, Approval::Always));
    assert!(matches!(named().spec().approval, Approval::When(_)));
    assert_eq!(always().spec().effect, Effect::AtMostOnce);
}

/// Counts what is borrowed, and takes the context by value and anywhere.
#[tool]
async fn mixed(cx: ToolContext, words: Vec<String>, r#type: &str) -> Result<usize, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    Ok(words.iter().filter(|word| *word == r#type).count())
}

/// C320: The context can be anywhere among the parameters, by value or by reference; `&str` is
/// borrowed from the arguments, and a keyword is the name without `r#`.
#[tokio::test]
async fn parameters_can_be_contexts_borrowed_texts_and_keywords() {
    let counted = call(&mixed(), json!({ "words": ["a", "b", "a"], "type": "a" })).await;
    assert_eq!(counted, Ok("2".to_owned()));
    assert_eq!(mixed().spec().schema["required"], json!(["words", "type"]));
}

/// Exists on one platform only.
#[cfg(not(test))]
#[tool]
fn absent(missing: DoesNotExist) {}

/// C320: An attribute `cfg` removes the tool with its arguments.
#[tool(description = "Is the one that exists.")]
#[cfg(test)]
fn absent() {}

#[test]
fn a_tool_can_depend_on_the_configuration() {
    assert_eq!(&*absent().spec().name, "absent");
}
