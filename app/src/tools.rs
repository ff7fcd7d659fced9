//! `loopwright tools`: the tools by themselves, without a model.

use std::io;

use loopwright_core::message::Content;
use loopwright_core::tool::{Effect, Toolbox};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use loopwright_tools::coding_tools_with;
use serde_json::{Value, json};

use crate::agent::StartError;
use crate::args::{Place, Tools};
use crate::interrupt::Interrupt;
use crate::print;
use crate::run::ABORTED;

/// A tool that failed.
const TOOL_FAILED: u8 = 1;

/// Does it, and gives the exit code.
pub(crate) async fn tools(what: &Tools) -> Result<u8, StartError> {
    let done = match what {
        Tools::List { json, place } => list(&all(place)?, *json),
        Tools::Call { name, arguments, json, place } => {
            let tools = all(place)?;
            // As the engine does it, with the same words.
            let arguments = tools.validate(name, arguments).map_err(StartError)?;
            let Some(tool) = tools.tool(name) else {
                return Ok(TOOL_FAILED);
            };
            show(call(&**tool, &arguments).await?, *json)
        }
    };
    match done {
        Ok(code) => Ok(code),
        Err(why) => print::printed(Err(why)),
    }
}

fn all(place: &Place) -> Result<Toolbox, StartError> {
    Ok(coding_tools_with(place.workspace()?, place.commands()))
}

fn list(tools: &Toolbox, json: bool) -> io::Result<u8> {
    let specs = tools.tools().map(|tool| tool.spec());
    if json {
        let all = specs.map(|spec| {
            json!({
                "name": &*spec.name,
                "title": spec.title,
                "description": spec.description,
                "effect": spec.effect,
                "sequential": spec.sequential,
                "schema": spec.schema,
            })
        });
        print::json_line(&all.collect::<Vec<Value>>())?;
        return Ok(0);
    }
    for spec in specs {
        let asks = if spec.effect == Effect::ReadOnly { "" } else { " (asks first)" };
        print::text(&format!("{}{asks}\n    {}\n", spec.name, spec.description))?;
    }
    Ok(0)
}

/// Calls it. The first Ctrl-C cancels, the second one exits at once.
async fn call(
    tool: &dyn Tool,
    arguments: &Value,
) -> Result<Result<ToolOutput, ToolError>, StartError> {
    let mut interrupt = Interrupt::listen()?;
    let cx = ToolContext::detached();
    let cancel = cx.cancellation();
    let mut call = std::pin::pin!(tool.call(arguments, cx));
    loop {
        tokio::select! { biased;
            () = interrupt.pressed() => {
                if cancel.is_cancelled() {
                    std::process::exit(ABORTED.into())
                }
                cancel.cancel();
            }
            done = &mut call => return Ok(done),
        }
    }
}

fn show(done: Result<ToolOutput, ToolError>, json: bool) -> io::Result<u8> {
    let code = match &done {
        Ok(_) => 0,
        Err(ToolError::Cancelled) => ABORTED,
        Err(_) => TOOL_FAILED,
    };
    match done {
        Ok(output) if json => {
            let ToolOutput { content, details, .. } = output;
            print::json_line(&json!({ "status": "ok", "content": content, "details": details }))?;
        }
        Err(ToolError::FailedWith { why, details }) if json => {
            print::json_line(&json!({ "status": "error", "error": why, "details": details }))?
        }
        Err(why) if json => {
            print::json_line(&json!({ "status": "error", "error": why.to_string() }))?
        }
        Ok(output) => output.content.iter().try_for_each(show_content)?,
        Err(ToolError::Cancelled) => print::tell("Aborted."),
        Err(why) => print::complain(&why),
    }
    Ok(code)
}

fn show_content(content: &Content) -> io::Result<()> {
    match content {
        Content::Text { text } => print::text(text),
        Content::Image { media_type, data } => {
            print::text(&format!("({media_type}, {} characters of base64)", data.len()))
        }
        other => print::json_line(other),
    }
}
