//! `loopwright tools`: the tools, without a model.

use std::io;

use loopwright_core::message::Content;
use loopwright_core::tool::{AskUser, Effect, Todo, Toolbox};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use loopwright_tools::{Commands, coding_tools_with};
use serde_json::{Value, json};

use crate::args::Tools;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::exit_code::{ABORTED, TOOL_FAILED};
use crate::interrupt::Interrupt;
use crate::options::{FILES, Flags};
use crate::output;

/// Lists the tools or calls one, and returns the exit code.
pub(crate) async fn tools(args: &Tools, config: &Config) -> Result<u8, StartError> {
    if !config.program.has_coding_agent() {
        return Err(StartError(
            "This program has no agent that works on files, and `tools` is about its tools.".into(),
        ));
    }
    let done = match args {
        Tools::List { json, files } => list(&toolbox(files, config)?, *json),
        Tools::Call { name, arguments, json, files } => {
            let tools = toolbox(files, config)?;
            // The same check as in a run, with the same errors.
            let arguments = tools.validate(name, arguments).map_err(StartError)?;
            let Some(tool) = tools.tool(name) else {
                return Err(StartError(format!("There is no tool `{name}`.")));
            };
            show(call(&**tool, &arguments).await?, *json)
        }
    };
    match done {
        Ok(code) => Ok(code),
        Err(why) => output::after_write(Err(why)),
    }
}

fn toolbox(given: &Flags<FILES>, config: &Config) -> Result<Toolbox, StartError> {
    let settings = config.files(given)?;
    let commands = settings.commands(&Commands::new());
    let tools = coding_tools_with(settings.workspace()?, commands);
    let tools = tools.with(AskUser::new()).and_then(|tools| tools.with(Todo::new()));
    tools.map_err(|why| StartError(format!("The tools: {why}.")))
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
        output::json_line(&all.collect::<Vec<Value>>())?;
        return Ok(0);
    }
    for spec in specs {
        let asks = if spec.effect == Effect::ReadOnly { "" } else { " (needs approval)" };
        output::text(&format!("{}{asks}\n    {}\n", spec.name, spec.description))?;
    }
    Ok(0)
}

/// Calls the tool. The first Ctrl-C cancels the call, the second one ends the process.
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
        Err(ToolError::Cancelled | ToolError::CancelledWith { .. }) => ABORTED,
        Err(_) => TOOL_FAILED,
    };
    match done {
        Ok(output) if json => {
            let ToolOutput { content, details, .. } = output;
            output::json_line(&json!({ "status": "ok", "content": content, "details": details }))?;
        }
        Err(ToolError::FailedWith { why, details }) if json => {
            output::json_line(&json!({ "status": "error", "error": why, "details": details }))?
        }
        Err(ToolError::CancelledWith { output, details }) if json => output::json_line(
            &json!({ "status": "aborted", "output": output, "details": details }),
        )?,
        Err(why) if json => {
            output::json_line(&json!({ "status": "error", "error": why.to_string() }))?
        }
        Ok(output) => output.content.iter().try_for_each(show_content)?,
        Err(ToolError::Suspend(request)) => output::error(&format!(
            "The tool asks the user ({}), and only a session can carry the answer: use `{} run` \
             or `chat`.",
            request.kind,
            started_as()
        )),
        Err(ToolError::Cancelled) => output::info("Aborted."),
        Err(ToolError::CancelledWith { output, .. }) => {
            output::text(&output)?;
            output::info("Aborted.");
        }
        Err(why) => output::error(&why),
    }
    Ok(code)
}

fn show_content(content: &Content) -> io::Result<()> {
    match content {
        Content::Text { text } => output::text(text),
        Content::Image { media_type, data } => {
            output::text(&format!("({media_type}, {} characters of base64)", data.len()))
        }
        other => output::json_line(other),
    }
}
