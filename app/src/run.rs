//! `loopwright run`: one prompt, one run, one exit code.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use loopwright::{AgentEvent, AgentHandle, EndKind, EventStream, ExternalAction, RunContext, RunOutcome};

use crate::agent::{self, Allowed, StartError};
use crate::args::RunArgs;
use crate::interrupt::Interrupt;
use crate::print::{self, Printer};

/// A run that was aborted, as shells have it.
pub(crate) const ABORTED: u8 = 130;
/// A run that failed.
pub(crate) const FAILED: u8 = 5;

/// Answers the prompt and gives the exit code.
pub(crate) async fn run(args: &RunArgs, prompt: String) -> Result<u8, StartError> {
    let agent = agent::build(&args.options, &Allowed::default()).await?;
    let interrupt = Interrupt::listen()?;
    let (handle, _) = agent.run(RunContext::new()).await?;
    let refused = |why| StartError(format!("The prompt was not taken: {why}."));
    let events = handle.prompt_stream(prompt).await.map_err(refused)?;
    // On a task of its own: it is heard even while standard output takes no more text.
    tokio::spawn(abort_on(interrupt, handle.clone()));
    let shown = if args.json { show_json(events).await } else { show_text(events).await };
    match shown {
        Ok(Some(outcome)) => {
            if outcome.end == EndKind::AwaitingAction && !args.json {
                tell_open(&handle.pending().await.unwrap_or_default());
            }
            Ok(exit_code(&outcome))
        }
        Ok(None) => {
            print::complain("The session ended before the run did.");
            Ok(FAILED)
        }
        Err(why) => {
            let _ = handle.abort().await;
            handle.wait_for_idle().await;
            if why.kind() != ErrorKind::BrokenPipe {
                print::complain(&format!("Standard output takes no more text: {why}. The run was aborted."));
            }
            Ok(ABORTED)
        }
    }
}

/// The first Ctrl-C aborts the run, the second one exits at once.
async fn abort_on(mut interrupt: Interrupt, handle: AgentHandle) {
    interrupt.pressed().await;
    tokio::join!(handle.abort(), async {
        interrupt.pressed().await;
        std::process::exit(ABORTED.into())
    });
}

async fn show_text(mut events: EventStream) -> io::Result<Option<Arc<RunOutcome>>> {
    let mut printer = Printer::new();
    while let Some(event) = events.next().await {
        printer.show(&event.event)?;
        if let AgentEvent::AgentEnd(outcome) = &event.event {
            return Ok(Some(outcome.clone()));
        }
    }
    Ok(None)
}

async fn show_json(mut events: EventStream) -> io::Result<Option<Arc<RunOutcome>>> {
    while let Some(event) = events.next().await {
        print::json_line(&event)?;
        if let AgentEvent::AgentEnd(outcome) = &event.event {
            print::tell_failure(outcome);
            return Ok(Some(outcome.clone()));
        }
    }
    Ok(None)
}

fn exit_code(outcome: &RunOutcome) -> u8 {
    match outcome.end {
        EndKind::Done => 0,
        EndKind::AwaitingAction => 3,
        EndKind::Limit => 4,
        EndKind::Aborted => ABORTED,
        _ => FAILED,
    }
}

fn tell_open(actions: &[ExternalAction]) {
    for action in actions {
        print::show(&format!("? {} (call {})", print::call(action), action.call));
    }
    let mut tools: Vec<&str> = actions.iter().map(|action| &*action.name).collect();
    tools.dedup();
    let flags: Vec<String> = tools.iter().map(|tool| format!("--approve {tool}")).collect();
    print::tell(&format!(
        "Not run, because it needs your confirmation. Allow it with {}, or answer call by call in `loopwright chat`.",
        flags.join(" ")
    ));
}
