//! `loopwright run`: one prompt, one run, one exit code.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use loopwright::{AgentEvent, AgentHandle, EndKind, EventStream, ExternalAction, InputEvent, RunOutcome};

use crate::agent::{self, Allowed, StartError};
use crate::args::RunArgs;
use crate::interrupt::Interrupt;
use crate::print::{self, Printer};
use crate::store::Session;

/// A run that was aborted, as shells have it.
pub(crate) const ABORTED: u8 = 130;
/// A run that failed.
pub(crate) const FAILED: u8 = 5;

/// Answers the prompt, or goes on with what is there, and gives the exit code.
pub(crate) async fn run(args: &RunArgs, prompt: Option<String>) -> Result<u8, StartError> {
    let session = Session::choose(&args.which).await?;
    let options = session.options(&args.options)?;
    let built = agent::build(&options, &Allowed::default()).await?;
    let interrupt = Interrupt::listen()?;
    let (handle, events) = built.agent.run(session.context(&built).await?).await?;
    let (name, kept) = (session.name.clone(), session.kept);
    let refused = |why| StartError(format!("The prompt was not taken: {why}."));
    let events = match prompt {
        Some(prompt) => {
            if let Some(run) = handle.state().await.ok().and_then(|state| state.interrupted_run) {
                print::tell(&format!(
                    "Run {run} of this session was interrupted; your prompt ends it. (`--resume` would have gone on with it.)"
                ));
            }
            handle.prompt_stream(prompt).await.map_err(refused)?
        }
        None => {
            handle.send(InputEvent::Continue(None)).await.map_err(refused)?;
            events
        }
    };
    let shown = show(handle, events, interrupt, args.json).await?;
    if shown.open.is_empty() || args.json {
        return Ok(shown.code);
    }
    tell_open(&shown.open, kept.then_some(&*name));
    Ok(shown.code)
}

/// What came of a run.
pub(crate) struct Shown {
    pub(crate) code: u8,
    /// What waits for an answer.
    pub(crate) open: Vec<ExternalAction>,
}

/// Shows a run until it ends; Ctrl-C aborts it.
pub(crate) async fn show(
    handle: AgentHandle,
    events: EventStream,
    interrupt: Interrupt,
    json: bool,
) -> Result<Shown, StartError> {
    // On a task of its own: it is heard even while standard output takes no more text.
    tokio::spawn(abort_on(interrupt, handle.clone()));
    let shown = if json { show_json(events).await } else { show_text(events).await };
    let code = match shown {
        Ok(Some(outcome)) => {
            let open = match outcome.end {
                EndKind::AwaitingAction => handle.pending().await.unwrap_or_default(),
                _ => Vec::new(),
            };
            return Ok(Shown { code: exit_code(&outcome), open });
        }
        Ok(None) => {
            print::complain("The session ended before the run did.");
            FAILED
        }
        Err(why) => {
            let _ = handle.abort().await;
            handle.wait_for_idle().await;
            if why.kind() != ErrorKind::BrokenPipe {
                print::complain(&format!("Standard output takes no more text: {why}. The run was aborted."));
            }
            ABORTED
        }
    };
    Ok(Shown { code, open: Vec::new() })
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

/// What waits, and how it is answered.
pub(crate) fn tell_open(actions: &[ExternalAction], session: Option<&str>) {
    for action in actions {
        print::show(&format!("? {} (call {})", print::call(action), action.call));
    }
    let Some(session) = session else {
        let mut tools: Vec<&str> = actions.iter().map(|action| &*action.name).collect();
        tools.dedup();
        let flags: Vec<String> = tools.iter().map(|tool| format!("--approve {tool}")).collect();
        return print::tell(&format!(
            "Not run, because it needs your confirmation. Allow it with {}, or answer call by call in `loopwright chat`.",
            flags.join(" ")
        ));
    };
    let call = actions.first().map_or("CALL", |action| &*action.call);
    print::tell(&format!(
        "Not run, because it needs your confirmation: `loopwright approve {session} {call}` runs it and goes on, `loopwright \
         deny {session} {call} --reason TEXT` refuses it."
    ));
}
