//! `loopwright run`: one prompt, one run, one exit code.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use loopwright_core::agent::InputError;
use loopwright_core::event::{Envelope, ExternalAction, InputEvent, Prompt, RunOutcome, RunStatus};
use loopwright_core::model::OutputSchema;
use loopwright_core::{AgentEvent, AgentHandle, EventStream, GenericAgent};
use loopwright_patterns::GenericPattern;
use loopwright_providers::Offline;

use crate::agent::{self, Allowed, StartError};
use crate::args::{Options, RunArgs, Speech};
use crate::interrupt::Interrupt;
use crate::print::{self, Printer, Volume};
use crate::store::Session;

/// A run that was aborted, as shells have it.
pub(crate) const ABORTED: u8 = 130;
/// A run that failed.
pub(crate) const FAILED: u8 = 5;

/// Answers the prompt, or goes on with what is there, and gives the exit code.
pub(crate) async fn run(args: &RunArgs, prompt: Option<String>) -> Result<u8, StartError> {
    if args.resume && args.which.session.is_none() && !args.which.latest {
        return Err(StartError(
            "Say which session --resume goes on with: --session NAME, or -c for the latest.".into(),
        ));
    }
    let output = args.output_schema.as_deref().map(schema).transpose()?;
    let told = Told { streams: output.is_none(), ..Told::of(args.json, args.speech) };
    let quiet = !told.notes();
    let session = Session::choose(&args.which).await?;
    let options = session.options(&Options { quiet, ..args.options.clone() })?;
    let built = agent::build(&options, &Allowed::default()).await?;
    let interrupt = Interrupt::listen()?;
    let (handle, events) = built.agent.run(session.context(&built).await?).await?;
    let refused = |why| StartError(format!("The prompt was not taken: {why}."));
    let state = handle.state().await.map_err(refused)?;
    match prompt {
        Some(prompt) => {
            if let (Some(run), false) = (state.interrupted_run, quiet) {
                print::tell(&format!(
                    "Run {run} of this session was interrupted; your prompt ends it. (`--resume` would have gone on with it.)"
                ));
            }
            let mut prompt = Prompt::from(prompt);
            prompt.output = output.map(Arc::new);
            handle.send(InputEvent::UserRequest(prompt)).await.map(drop).map_err(refused)?;
        }
        None if state.is_running => {} // what had waited began by itself
        None => match handle.send(InputEvent::Continue(None)).await {
            Ok(_) | Err(InputError::Busy) => {}
            Err(why) => return Err(refused(why)),
        },
    }
    let shown = show(handle, events, interrupt, told).await?;
    if !shown.open.is_empty() && told.calls() {
        tell_open(&shown.open, session.kept.then_some(&*session.name));
    }
    Ok(shown.code)
}

/// The schema in a file, if it is one.
fn schema(path: &Path) -> Result<OutputSchema, StartError> {
    let wrong = |why: &dyn std::fmt::Display| {
        StartError(format!("The output schema {}: {why}.", path.display()))
    };
    let text =
        std::fs::read_to_string(path).map_err(|why| wrong(&format!("it cannot be read: {why}")))?;
    let schema =
        serde_json::from_str(&text).map_err(|why| wrong(&format!("it is not JSON: {why}")))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = name.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).take(64);
    let name = Some(plain.collect::<String>()).filter(|name| !name.is_empty());
    let schema = OutputSchema { name: name.unwrap_or_else(|| "answer".into()), schema };
    // An agent says what is wrong with one, and before anything is begun.
    let agent =
        GenericAgent::builder(Offline::new(), GenericPattern).output_schema(schema.clone()).build();
    agent.map(|_| schema).map_err(|why| wrong(&why))
}

/// What is told of a run, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    json: bool,
    volume: Volume,
    /// Text goes out as it comes, unless the answer alone is wanted.
    streams: bool,
}

impl Told {
    /// As the command line has it.
    pub(crate) fn of(json: bool, speech: Speech) -> Self {
        Told { json, volume: speech.volume(), streams: true }
    }

    /// Whether it is told what the user need not know.
    pub(crate) fn notes(self) -> bool {
        self.volume != Volume::Quiet
    }

    /// Whether it is told what waits.
    pub(crate) fn calls(self) -> bool {
        !self.json && self.notes()
    }

    fn streams(self) -> bool {
        self.streams && self.notes()
    }

    /// The answer, if it has not streamed and there is one.
    fn answer(self, outcome: &RunOutcome) -> io::Result<()> {
        if self.json || self.streams() || outcome.end != RunStatus::Done {
            return Ok(());
        }
        match &outcome.value {
            Some(value) => print::text(&value.to_string()),
            None => print::text(&outcome.text),
        }
    }
}

/// What came of a run.
pub(crate) struct Shown {
    pub(crate) code: u8,
    /// What waits for an answer.
    pub(crate) open: Vec<ExternalAction>,
}

/// Shows what the session does until it rests; Ctrl-C aborts it.
pub(crate) async fn show(
    handle: AgentHandle,
    events: EventStream,
    interrupt: Interrupt,
    told: Told,
) -> Result<Shown, StartError> {
    // On a task of its own: it is heard even while standard output takes no more text.
    tokio::spawn(abort_on(interrupt, handle.clone()));
    let code = match watch(&handle, events, told).await {
        Ok(Some(outcome)) => {
            let open = match outcome.end {
                RunStatus::AwaitingAction => handle.pending().await.unwrap_or_default(),
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
                print::complain(&format!(
                    "Standard output takes no more text: {why}. The run was aborted."
                ));
            }
            ABORTED
        }
    };
    Ok(Shown { code, open: Vec::new() })
}

/// Shows events until the session rests, and gives how its last run ended: what had waited in it
/// may run first.
async fn watch(
    handle: &AgentHandle,
    mut events: EventStream,
    told: Told,
) -> io::Result<Option<Arc<RunOutcome>>> {
    let (mut printer, mut last) = (Printer::of(told.volume, told.streams()), None);
    let mut show = |event: &Envelope, last: &mut Option<Arc<RunOutcome>>| {
        if let AgentEvent::AgentEnd(outcome) = &event.event {
            *last = Some(outcome.clone());
        }
        match &event.event {
            AgentEvent::AgentEnd(outcome) if told.json => {
                print::json_line(event)?;
                print::tell_failure(outcome, told.volume);
                Ok(())
            }
            _ if told.json => print::json_line(event),
            event => printer.show(event),
        }
    };
    while last.is_none() {
        let Some(event) = events.next().await else {
            return Ok(None);
        };
        show(&event, &mut last)?;
    }
    let mut rests = std::pin::pin!(handle.wait_for_idle());
    loop {
        tokio::select! { biased;
            event = events.next() => match event {
                Some(event) => show(&event, &mut last)?,
                None => break,
            },
            () = &mut rests => break,
        }
    }
    while let Some(event) = events.try_next() {
        show(&event, &mut last)?;
    }
    last.iter().try_for_each(|outcome| told.answer(outcome))?;
    Ok(last)
}

/// The first Ctrl-C aborts the run, the second one exits at once.
async fn abort_on(mut interrupt: Interrupt, handle: AgentHandle) {
    interrupt.pressed().await;
    tokio::join!(handle.abort(), async {
        interrupt.pressed().await;
        std::process::exit(ABORTED.into())
    });
}

fn exit_code(outcome: &RunOutcome) -> u8 {
    match outcome.end {
        RunStatus::Done => 0,
        RunStatus::AwaitingAction => 3,
        RunStatus::Limit => 4,
        RunStatus::Aborted => ABORTED,
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
    let Some(action) = actions.first() else {
        return;
    };
    let which =
        format!("{} {} --digest {}", print::quoted(session), action.call, print::digest(action));
    print::tell(&format!(
        "Not run, because it needs your confirmation: `loopwright approve {which}` runs it and goes on, `loopwright deny \
         {which} --reason TEXT` refuses it."
    ));
}
