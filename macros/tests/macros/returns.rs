//! Return values of tools.

use loopwright::error::ActionRequest;
use loopwright::{Tool, ToolContext, ToolError, ToolOutput, tool};
use serde_json::{Value, json};

use crate::functions::call;

type Alias<T> = Result<T, anyhow::Error>;

/// Returns nothing.
#[tool]
fn unit() {}

/// Returns a value for JSON.
#[tool]
fn list() -> Vec<u8> {
    vec![1, 2]
}

/// Returns an output with details.
#[tool]
fn output() -> ToolOutput {
    ToolOutput::text("text").details(json!(1))
}

/// Returns a value.
#[tool]
fn value() -> Value {
    json!({ "a": 1 })
}

/// Returns an error with a cause.
#[tool]
async fn chain() -> Alias<&'static str> {
    Err(anyhow::anyhow!("no disk").context("nothing was saved"))
}

/// Returns an error of the standard library.
#[tool]
fn io() -> std::io::Result<()> {
    Err(std::io::Error::other("closed"))
}

/// Returns a boxed error.
#[tool]
async fn boxed(fails: bool) -> Result<String, Box<dyn std::error::Error>> {
    if fails { Err("boxed")? } else { Ok("fine".into()) }
}

/// Suspends itself.
#[tool]
fn suspends() -> Result<(), ToolError> {
    Err(ToolError::Suspend(ActionRequest::new("login", "Log in.")))
}

/// C322: Outputs stay unchanged, serialisable values become JSON, and `()` says that the call is
/// done.
#[tokio::test]
async fn values_become_outputs() {
    assert_eq!(call(&unit(), json!({})).await.unwrap(), "Done.");
    assert_eq!(call(&list(), json!({})).await.unwrap(), "[1,2]");
    assert_eq!(call(&value(), json!({})).await.unwrap(), r#"{"a":1}"#);
    let output = output().call(&json!({}), ToolContext::detached()).await.unwrap();
    assert_eq!(output.details, Some(json!(1)));
}

/// C322: Errors of any type with a text become failures with it and its causes, even behind an
/// alias of `Result`.
#[tokio::test]
async fn errors_become_failures_with_their_text() {
    let failed = chain().call(&json!({}), ToolContext::detached()).await.unwrap_err();
    assert_eq!(failed, ToolError::Failed("nothing was saved: no disk".into()));
    assert_eq!(call(&io(), json!({})).await.unwrap_err(), "closed");
    assert_eq!(call(&boxed(), json!({ "fails": true })).await.unwrap_err(), "boxed");
    assert_eq!(call(&boxed(), json!({ "fails": false })).await.unwrap(), "fine");
}

/// C322: A `ToolError` is returned unchanged.
#[tokio::test]
async fn a_tool_error_is_returned_as_it_is() {
    let suspended = suspends().call(&json!({}), ToolContext::detached()).await.unwrap_err();
    assert!(matches!(suspended, ToolError::Suspend(request) if request.kind == "login"));
}
