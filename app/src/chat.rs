//! `loopwright chat`: a conversation, line by line.
//!
//! One loop hears three things: Ctrl-C, the agent's events, and the user's lines. What a line means
//! depends on where the conversation stands: at rest it is a request, during a run it steers, and
//! when a call waits it is the answer.

mod confirm;
mod lines;

use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::sync::Arc;

use loopwright_core::agent::InputError;
use loopwright_core::compaction::Compaction;
use loopwright_core::event::{Envelope, ExternalAction, InputEvent, Role, RunStatus};
use loopwright_core::{AgentEvent, AgentHandle, EventStream};

use crate::agent::{self, Allowed, StartError};
use crate::args::ChatArgs;
use crate::interrupt::Interrupt;
use crate::print::{self, Printer};
use crate::run::{ABORTED, FAILED, tell_open};
use crate::store::Session;

const HELP: &str = "\
A line is a request; while the agent works, a line steers it.
/compact TEXT have older turns summarised, with TEXT in mind if there is one
/continue     go on with a run that was interrupted or has failed
/later TEXT   a message that waits until the agent would otherwise stop
/help         this text
/quit         leave; what goes on is aborted, what waits for an answer waits on
Ctrl-C        abort what goes on; a second one, or one at rest, leaves";

/// Talks until the user leaves, and gives the exit code.
pub(crate) async fn chat(args: &ChatArgs) -> Result<u8, StartError> {
    let allowed = Allowed::default();
    let session = Session::choose(&args.which).await?;
    let options = session.options(&args.options)?;
    let built = agent::build(&options, &allowed).await?;
    let mut interrupt = Interrupt::listen()?;
    let (handle, mut events) = built.agent.run(session.context(&built).await?).await?;
    let mut lines = lines::read()?;
    let mut chat = Chat::new(handle, allowed, session.kept.then(|| session.name.clone()));
    if let Err(why) = chat.greet(session.info.is_some()).await {
        print::complain(&why);
        return Ok(FAILED);
    }
    while chat.leave.is_none() {
        let done = tokio::select! { biased;
            () = interrupt.pressed() => chat.interrupted().await,
            event = events.next() => chat.event(event, &mut events).await,
            done = chat.compaction() => chat.compacted(done, &mut events).await,
            line = lines.recv(), if !chat.input_ended => chat.line(line).await,
        };
        if let Err(why) = done {
            print::complain(&why);
            return Ok(FAILED);
        }
    }
    if !chat.spoke && session.info.is_none() && session.kept {
        // Nothing was said: nothing is to be kept.
        drop(chat.handle);
        while events.next().await.is_some() {}
        session.store.delete(&session.name).await?;
        return Ok(chat.leave.unwrap_or_default());
    }
    if chat.keyboard && session.kept {
        print::tell(&format!(
            "This is session {0}: `loopwright --session {0}` goes on with it.",
            print::quoted(&session.name)
        ));
    }
    Ok(chat.leave.unwrap_or_default())
}

/// What ends a chat that nobody wanted to leave.
enum Stop {
    Output(io::Error),
    Session(InputError),
}

impl From<InputError> for Stop {
    fn from(error: InputError) -> Self {
        Stop::Session(error)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Output(why) => write!(f, "standard output takes no more text: {why}."),
            Stop::Session(why) => write!(f, "the conversation cannot go on: {why}."),
        }
    }
}

type Done = Result<(), Stop>;
type Compacted = Result<Vec<Arc<Compaction>>, InputError>;

/// What the next line is.
enum Stand {
    /// A request.
    Rest,
    /// A steer.
    Working,
    /// The answer to this call.
    Asking(ExternalAction),
    /// The new arguments of this call.
    Editing(ExternalAction),
}

struct Chat {
    handle: AgentHandle,
    allowed: Allowed,
    printer: Printer,
    stand: Stand,
    /// How the last run ended.
    last: RunStatus,
    /// An abort is on its way.
    aborting: bool,
    /// No more lines will come.
    input_ended: bool,
    /// The session, if it is kept.
    kept: Option<Arc<str>>,
    /// Somebody sits at the keyboard.
    keyboard: bool,
    /// Something was asked for.
    spoke: bool,
    /// A compaction that was asked for.
    compaction: Option<Pin<Box<dyn Future<Output = Compacted>>>>,
    /// The exit code, once it is time to leave.
    leave: Option<u8>,
}

impl Chat {
    fn new(handle: AgentHandle, allowed: Allowed, kept: Option<Arc<str>>) -> Self {
        Chat {
            handle,
            allowed,
            printer: Printer::new(),
            stand: Stand::Rest,
            last: RunStatus::Done,
            aborting: false,
            input_ended: false,
            kept,
            keyboard: io::stdin().is_terminal(),
            spoke: false,
            compaction: None,
            leave: None,
        }
    }

    /// Says where the conversation stands; what waits in it is asked.
    async fn greet(&mut self, again: bool) -> Done {
        if self.keyboard {
            print::tell("Type what you want done; /help tells more, /quit leaves.");
        }
        if again {
            let state = self.handle.state().await?;
            print::tell(&format!("The conversation has {} messages.", state.messages.len()));
            let said =
                state.messages.iter().rev().filter(|message| message.role() == Role::Assistant);
            if let Some(last) = said.map(|reply| reply.text()).find(|text| !text.trim().is_empty())
            {
                print::show(last.trim_end());
            }
            if let Some(run) = state.interrupted_run {
                print::tell(&format!(
                    "Run {run} was interrupted; /continue goes on with it, a new request ends it."
                ));
            }
            if let Some(action) = state.pending_actions.into_iter().next() {
                return self.put(action).await;
            }
        }
        if self.keyboard {
            print::ask(">");
        }
        Ok(())
    }

    // ---- what the agent does ---------------------------------------------------------------------

    async fn event(&mut self, event: Option<Arc<Envelope>>, events: &mut EventStream) -> Done {
        let event = event.ok_or(InputError::Gone)?;
        self.show(&event.event)?;
        if matches!(event.event, AgentEvent::AgentEnd(_)) {
            self.run_ended(events).await
        } else {
            Ok(())
        }
    }

    fn show(&mut self, event: &AgentEvent) -> Done {
        match event {
            AgentEvent::AgentStart { .. } => self.stand = Stand::Working,
            AgentEvent::AgentEnd(outcome) => self.last = outcome.end,
            _ => {}
        }
        self.printer.show(event).map_err(Stop::Output)
    }

    /// A run has ended: the next one goes on already, or something is open, or it is the user's
    /// turn.
    async fn run_ended(&mut self, events: &mut EventStream) -> Done {
        let state = self.handle.state().await?;
        if state.is_running {
            return Ok(());
        }
        // More runs may have come and gone between that end and this look.
        while let Some(event) = events.try_next() {
            self.show(&event.event)?;
        }
        self.aborting = false;
        if let Some(action) = state.pending_actions.into_iter().next() {
            return self.put(action).await;
        }
        let queued = !state.steering_queue.is_empty() || !state.follow_up_queue.is_empty();
        if queued && self.last == RunStatus::Done {
            // Sent before this end was seen here, and heard after it.
            self.stand = Stand::Working;
            self.handle.send(InputEvent::Continue(None)).await?;
            return Ok(());
        }
        if queued {
            print::tell(
                "What you said meanwhile still waits, and goes out with your next request.",
            );
        }
        self.rest();
        Ok(())
    }

    fn rest(&mut self) {
        self.stand = Stand::Rest;
        if self.input_ended {
            self.leave = Some(0);
        } else if self.keyboard {
            print::ask(">");
        }
    }

    // ---- what the user does ----------------------------------------------------------------------

    /// A line; nothing at the end of the input.
    async fn line(&mut self, line: Option<String>) -> Done {
        let Some(line) = line.as_deref().map(str::trim) else {
            return self.input_ends();
        };
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, &self.stand) {
            ("", Stand::Rest) => self.rest(),
            ("", Stand::Working) => {}
            ("/quit", _) => self.quit().await?,
            ("/help", _) => self.help(),
            ("/continue", Stand::Rest) => self.go_on().await?,
            ("/continue", Stand::Working) => print::tell("It goes on already."),
            ("/compact", Stand::Rest | Stand::Working) => self.compact(rest.trim()),
            ("/later", Stand::Rest) if !rest.trim().is_empty() => self.request(rest.trim()).await?,
            ("/later", _) if !rest.trim().is_empty() => {
                self.handle.follow_up(rest.trim()).await?;
                print::tell("Noted for later.");
                self.ask_again();
            }
            (command, _)
                if command.starts_with('/') && command.chars().skip(1).all(char::is_alphabetic) =>
            {
                print::tell(&format!("`{line}` is not a command; /help tells what there is."));
                self.ask_again();
            }
            (_, Stand::Rest) => self.request(line).await?,
            (_, Stand::Working) => {
                self.handle.steer(line).await?;
                print::tell("Heard; it goes out with the next request.");
            }
            (_, Stand::Asking(action)) => {
                let action = action.clone();
                self.answer(action, word, rest.trim()).await?;
            }
            (_, Stand::Editing(action)) => {
                let action = action.clone();
                self.edit(action, line).await?;
            }
        }
        Ok(())
    }

    /// Waits for a compaction that goes on.
    async fn compaction(&mut self) -> Compacted {
        match &mut self.compaction {
            Some(compaction) => compaction.await,
            None => std::future::pending().await,
        }
    }

    async fn request(&mut self, text: &str) -> Done {
        (self.stand, self.spoke) = (Stand::Working, true);
        self.handle.send(InputEvent::UserRequest(text.into())).await?;
        Ok(())
    }

    /// Goes on with a run that was interrupted or has failed, or with what waits.
    async fn go_on(&mut self) -> Done {
        match self.handle.send(InputEvent::Continue(None)).await {
            Ok(_) => (self.stand, self.spoke) = (Stand::Working, true),
            Err(why @ InputError::NothingToContinue) => {
                print::tell(&format!("{why}."));
                self.rest();
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    /// Has older turns summarised. What was replaced is told by its event.
    fn compact(&mut self, instructions: &str) {
        self.stand = Stand::Working;
        let (handle, instructions) = (self.handle.clone(), instructions.to_owned());
        self.compaction = Some(Box::pin(async move {
            handle.compact(Some(instructions.as_str()).filter(|text| !text.is_empty())).await
        }));
    }

    /// A compaction that was asked for is done, with or without a run of its own.
    async fn compacted(&mut self, done: Compacted, events: &mut EventStream) -> Done {
        self.compaction = None;
        match done {
            Ok(done) if done.is_empty() => print::tell("There is nothing to summarise yet."),
            Ok(_) => {}
            Err(why) => print::complain(&format!("{why}.")),
        }
        while let Some(event) = events.try_next() {
            self.event(Some(event), events).await?;
        }
        if matches!(self.stand, Stand::Working) && !self.handle.state().await?.is_running {
            self.rest();
        }
        Ok(())
    }

    fn input_ends(&mut self) -> Done {
        self.input_ended = true;
        match self.stand {
            Stand::Working => {}
            Stand::Rest => self.leave = Some(0),
            Stand::Asking(_) | Stand::Editing(_) => self.leave_open(),
        }
        Ok(())
    }

    /// Nobody is left who could answer.
    fn leave_open(&mut self) {
        match (&self.stand, &self.kept) {
            (Stand::Asking(action) | Stand::Editing(action), Some(session)) => {
                print::tell("The input has ended, so the call waits.");
                tell_open(std::slice::from_ref(action), Some(session));
            }
            _ => print::tell("The input has ended, so the call is not run."),
        }
        self.leave = Some(0);
    }

    async fn interrupted(&mut self) -> Done {
        match self.stand {
            Stand::Rest => self.leave = Some(0),
            _ if self.aborting => self.leave = Some(ABORTED),
            _ => {
                self.aborting = true;
                self.stand = Stand::Working;
                self.handle.abort().await?;
            }
        }
        Ok(())
    }

    /// Leaves. What goes on is aborted; what waits, waits on.
    async fn quit(&mut self) -> Done {
        if matches!(self.stand, Stand::Working) {
            self.handle.abort().await?;
            self.handle.wait_for_idle().await;
        }
        self.leave = Some(0);
        Ok(())
    }

    fn help(&self) {
        print::tell(HELP);
        self.ask_again();
    }
}
