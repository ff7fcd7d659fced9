//! `loopwright run`: one prompt, one run, one exit code.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_core::agent::InputError;
use loopwright_core::event::{InputEvent, Prompt};
use loopwright_core::model::OutputSchema;
use loopwright_core::{AgentHandle, GenericAgent};
use loopwright_patterns::GenericPattern;
use loopwright_providers::Offline;

use crate::args::RunArgs;
use crate::config::Config;
use crate::error::StartError;
use crate::interrupt::Interrupt;
use crate::output::{self, Verbosity};
use crate::session::{RunOutput, Sending, Session, run_unattended};
use crate::stdin;

/// Maximum length of the name of an output schema.
const MAX_SCHEMA_NAME_CHARS: usize = 64;

/// Returns the prompt, with standard input appended if requested, or `None` with `--resume`.
pub(crate) fn prompt(args: &RunArgs) -> Result<Option<String>, StartError> {
    if args.resume {
        return Ok(None);
    }
    let prompt = match args.prompt.as_deref() {
        Some("-") if args.stdin || args.no_stdin => {
            return Err(StartError(
                "With `-` standard input is the prompt: give a prompt, or leave out --stdin and \
                 --no-stdin."
                    .into(),
            ));
        }
        None | Some("-") => stdin::read("prompt")?,
        Some(prompt) if prompt.trim().is_empty() || args.no_stdin => prompt.to_owned(),
        Some(prompt) if args.stdin => stdin::append(prompt, &stdin::read("text")?),
        Some(prompt) => match stdin::read_if_piped()?.filter(|text| !text.is_empty()) {
            Some(text) => stdin::append(prompt, &text),
            None => prompt.to_owned(),
        },
    };
    if prompt.trim().is_empty() {
        return Err(StartError(
            "There is no prompt: give it after `run`, in quotes, or pipe it into standard input."
                .into(),
        ));
    }
    Ok(Some(prompt))
}

/// Answers the prompt, or continues the session if it is `None`, and returns the exit code.
pub(crate) async fn run(
    args: &RunArgs,
    config: &Config,
    prompt: Option<String>,
) -> Result<u8, StartError> {
    if args.resume && args.session.name.is_none() && !args.session.latest {
        return Err(StartError(
            "--resume needs a session: --session NAME, or -c for the latest of this directory."
                .into(),
        ));
    }
    let schema = args.output_schema.as_deref().map(output_schema).transpose()?;
    let verbosity = args.verbosity.verbosity();
    let display = RunOutput { json: args.json, verbosity, streams: schema.is_none() };
    let session = Session::choose(&args.session, &args.options, config).await?;
    let event = match prompt {
        Some(prompt) => {
            let mut prompt = Prompt::from(prompt);
            prompt.output = schema.map(Arc::new);
            InputEvent::UserRequest(config.telemetry.trace(prompt))
        }
        None => InputEvent::Continue(None),
    };
    let sending = Sending::new(&session, event, "The prompt");
    let build = async || session.build(&args.options, config, verbosity).await;
    let (handle, events) = sending.start(verbosity, build).await?;
    // Until here Ctrl-C ends the process at once, as the session may wait for another process.
    let interrupt = Interrupt::listen()?;
    if !handle.is_attached() {
        send(&sending, &handle, verbosity).await.map_err(|why| sending.refused(&why))?;
    }
    let code = run_unattended(handle, events, interrupt, display, &session).await;
    if verbosity.notes() {
        config.program.mcp.problems().await.iter().for_each(|problem| output::notice(problem));
    }
    Ok(code)
}

/// Sends the prompt to the session that was opened here, or continues the session.
async fn send(
    sending: &Sending<'_>,
    handle: &AgentHandle,
    verbosity: Verbosity,
) -> Result<(), InputError> {
    let state = handle.state().await?;
    match sending.event {
        InputEvent::UserRequest(_) => {
            if let (Some(run), true) = (state.interrupted_run, verbosity.notes()) {
                output::info(&format!(
                    "Run {run} of this session was interrupted; your prompt ends it. (`--resume` \
                     would have continued it.)"
                ));
            }
            sending.send(handle).await
        }
        _ if state.is_running => Ok(()), // queued messages have started a run
        _ => match sending.send(handle).await {
            Err(InputError::Busy) => Ok(()),
            sent => sent,
        },
    }
}

/// Reads the output schema in a file, and names it after the file.
fn output_schema(path: &Path) -> Result<OutputSchema, StartError> {
    let error =
        |why: &dyn Display| StartError(format!("The output schema {}: {why}.", path.display()));
    let text =
        fs::read_to_string(path).map_err(|why| error(&format!("it cannot be read: {why}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let schema =
        serde_json::from_str(text).map_err(|why| error(&format!("it is not JSON: {why}")))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c))
        .take(MAX_SCHEMA_NAME_CHARS)
        .collect();
    let name = if name.is_empty() { "answer".into() } else { name };
    let schema = OutputSchema::new(name, schema);
    // Building an agent checks the schema before the session is opened.
    let agent =
        GenericAgent::builder(Offline::new(), GenericPattern).output_schema(schema.clone()).build();
    agent.map(|_| schema).map_err(|why| error(&why))
}
