//! A session of an editor: its turns, its events, and the questions to the user.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use loopwright_core::AgentEvent;
use loopwright_core::agent::InputError;
use loopwright_core::event::{ActionResult, Decision, ExternalAction, InputEvent, RunOutcome};
use loopwright_core::message::{CallId, Content, UserMessage};
use loopwright_core::session::AgentState;
use loopwright_protocols::RpcError;
use loopwright_protocols::acp::{Answer, notice, stop_reason, text_content};
use loopwright_tools::protected_file;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::ask::{Asking, ask};
use super::client::Client;
use super::modes::Mode;
use super::open::Opened;
use crate::mcp::Consent;
use crate::program::Program;
use crate::slash::SlashReply;
use crate::wording::{compaction, retry, waiting};

/// The choice that allows a server to start.
const ALLOW: &str = "allow";

/// A command from the editor to a session.
pub(super) enum Command {
    Prompt(Value, UserMessage),
    Cancel,
    SetMode(Mode),
    /// Close the session, and reply when it is closed.
    Close(oneshot::Sender<()>),
}

/// An open session of the editor.
pub(super) struct EditorSession {
    opened: Opened,
    client: Arc<Client>,
    program: Arc<Program>,
    mode: Mode,
    /// The ids of the prompts that are answered when the session is idle.
    turns: Vec<Value>,
    /// The outcome of the last run since the first of these prompts.
    outcome: Option<Arc<RunOutcome>>,
    is_cancelled: bool,
    /// A future that resolves when the session is idle.
    idle: Option<BoxFuture<'static, ()>>,
    /// The question that the user is asked now.
    asking: Option<Asking>,
    /// The calls that the user was asked about, with the digests of the shown calls.
    asked: HashSet<(CallId, Arc<str>)>,
    /// A slash command that runs in this process.
    command: Option<BoxFuture<'static, Result<SlashReply, String>>>,
    /// The question whether a server of the editor may start, and the request that waits for it.
    consenting: Option<BoxFuture<'static, Consented>>,
    waiting: Option<UserMessage>,
}

impl EditorSession {
    pub(super) fn new(opened: Opened, client: Arc<Client>, program: Arc<Program>) -> Self {
        EditorSession {
            mode: opened.mode,
            opened,
            client,
            program,
            turns: Vec::new(),
            outcome: None,
            is_cancelled: false,
            idle: None,
            asking: None,
            asked: HashSet::new(),
            command: None,
            consenting: None,
            waiting: None,
        }
    }

    /// Handles commands and events until the session closes. Then aborts a run of this process.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let closed = loop {
            tokio::select! { biased;
                command = commands.recv() => match command {
                    Some(Command::Prompt(id, message)) => self.prompt(id, message).await,
                    Some(Command::Cancel) => self.cancel().await,
                    Some(Command::SetMode(mode)) => self.set_mode(mode),
                    Some(Command::Close(closed)) => break Some(closed),
                    None => break None,
                },
                event = self.opened.events.next() => match event {
                    Some(event) => self.event(&event.event).await,
                    None => {
                        let why = "Another process has taken over the session: load it again.";
                        self.end_turns(&Err(RpcError::internal(why))).await;
                        break None;
                    }
                },
                () = or_never(&mut self.idle) => self.settle().await,
                (action, answer, shown) = or_never(&mut self.asking) => {
                    self.answered(action, answer, shown).await;
                }
                reply = or_never(&mut self.command) => self.replied(reply).await,
                answer = or_never(&mut self.consenting) => self.consented(answer).await,
            }
        };
        // Each prompt gets a response, even if it arrives while the session closes.
        let client = self.client.clone();
        self.close().await;
        commands.close();
        while let Ok(command) = commands.try_recv() {
            if let Command::Prompt(id, _) = command {
                client.respond(&id, Ok(json!({ "stopReason": "cancelled" }))).await;
            }
        }
        closed.map(|closed| closed.send(()));
    }

    async fn event(&mut self, event: &AgentEvent) {
        if let AgentEvent::AgentEnd(outcome) = event {
            self.outcome = Some(outcome.clone());
            self.watch_idle(); // a run that another process started may need a decision, too
        }
        if let AgentEvent::Retry(notice) = event {
            let why = retry(notice, notice.delay_ms.div_ceil(1000));
            self.notice(&format!("*{why}*\n\n")).await;
        }
        for update in self.opened.updates.fold(event) {
            self.client.update(&self.opened.session.name, update).await;
        }
    }

    fn watch_idle(&mut self) {
        let handle = self.opened.handle.clone();
        self.idle = Some(async move { handle.wait_for_idle().await }.boxed());
    }

    async fn notice(&mut self, text: &str) {
        self.client.update(&self.opened.session.name, notice(text)).await;
    }

    /// Starts a turn: a command, a request, or a steer of the run in progress.
    async fn prompt(&mut self, id: Value, mut message: UserMessage) {
        if self.is_cancelled {
            self.opened.handle.wait_for_idle().await; // the cancelled turn ends first
            self.settle().await;
        }
        let text = message.text();
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let name = word.strip_prefix('/').unwrap_or_default();
        let own = self.program.slash_command(name);
        if (own.is_some() || name == "compact") && self.command.is_some() {
            let why = "A command is still running: wait until it is done, or cancel.";
            return self.client.respond(&id, Err(RpcError::invalid_request(why))).await;
        }
        if self.turns.is_empty() {
            (self.outcome, self.is_cancelled) = (None, false);
        }
        self.turns.push(id);
        match (own, name) {
            (Some(own), _) => {
                let Opened { session, built, handle, .. } = &self.opened;
                let context = session.slash_context(&built.settings, handle);
                let mut running = own.start(rest.trim(), context);
                self.command = Some(async move { running.ended().await }.boxed());
            }
            (None, "compact") => self.compact(rest.trim()),
            (None, "continue") => {
                self.asked.clear(); // pending actions are asked about once more
                match self.opened.handle.pending().await {
                    Ok(pending) if !pending.is_empty() => self.watch_idle(),
                    _ => self.send(InputEvent::Continue(None)).await,
                }
            }
            // The agent plans `/plan`.
            (None, _) => {
                if self.mode.plans && !text.starts_with('/') {
                    message.content.insert(0, Content::text("/plan "));
                }
                self.request(message).await;
            }
        }
    }

    /// Starts a compaction, whose summary is shown as the reply of a command.
    fn compact(&mut self, instructions: &str) {
        let handle = self.opened.handle.clone();
        let instructions = Some(instructions.to_owned()).filter(|text| !text.is_empty());
        let compact = async move {
            let done = handle.compact(instructions.as_deref()).await;
            let done = done.map_err(|why| format!("{why}."))?;
            let lines: Vec<String> = done.iter().map(|done| compaction(done)).collect();
            let none = || "There is nothing to summarise yet.".to_owned();
            Ok(SlashReply::Show(if lines.is_empty() { none() } else { lines.join("\n") }))
        };
        self.command = Some(compact.boxed());
    }

    /// Asks whether the next server of the editor may start, or sends the request that waits.
    async fn ask_for_consent(&mut self) {
        if let Some(consent) = self.opened.built.consents.first() {
            let (client, session) = (self.client.clone(), self.opened.session.name.clone());
            let request = permission(&session, consent);
            let ask = async move {
                let answer = client.request("session/request_permission", request).await;
                answer.map_or(Consented::Refused, |answer| Consented::read(&answer["outcome"]))
            };
            self.consenting = Some(ask.boxed());
        } else if let Some(message) = self.waiting.take() {
            self.start(message).await;
        }
    }

    /// Handles the user's answer about the first server.
    async fn consented(&mut self, answer: Consented) {
        self.consenting = None;
        if answer == Consented::Cancelled {
            return self.cancel().await;
        }
        let consent = self.opened.built.consents.remove(0);
        let name = &consent.name;
        if answer == Consented::Refused {
            let why = format!("The MCP server `{name}` is not started: you have not allowed it.");
            self.notice(&format!("{why}\n\n")).await;
        } else if let Err(why) = consent.give() {
            let why = format!("You will be asked about the MCP server `{name}` again: {why}.");
            self.notice(&format!("{why}\n\n")).await;
        }
        self.ask_for_consent().await;
    }

    /// Sends a request, once the user was asked about the servers of the editor.
    async fn request(&mut self, message: UserMessage) {
        if self.opened.built.consents.is_empty() {
            return self.start(message).await;
        }
        match &mut self.waiting {
            Some(waiting) => waiting.content.extend(message.content),
            None => self.waiting = Some(message),
        }
        if self.consenting.is_none() {
            self.ask_for_consent().await;
        }
    }

    /// Sends a request, or a steer of the run in progress.
    async fn start(&mut self, message: UserMessage) {
        self.asking = None; // the request supersedes the question
        let is_running = self.opened.handle.state().await.is_ok_and(|state| state.is_running);
        self.send(match is_running {
            true => InputEvent::Steer(message.into()),
            false => InputEvent::UserRequest(message.into()),
        })
        .await;
    }

    /// Sends an input. If it is refused, the turn ends with the reason.
    async fn send(&mut self, event: InputEvent) {
        match self.opened.handle.send(event).await {
            Ok(_) => {}
            Err(why) => return self.end_turns(&Err(RpcError::internal(format!("{why}.")))).await,
        }
        self.watch_idle();
    }

    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.opened.allowed.set_scope(mode.scope);
    }

    /// Stops the run. The turns end when it has ended.
    async fn cancel(&mut self) {
        self.is_cancelled = !self.turns.is_empty();
        (self.asking, self.command, self.consenting, self.waiting) = (None, None, None, None);
        match self.opened.handle.abort().await {
            Ok(()) | Err(InputError::NothingToAbort(_)) => self.watch_idle(),
            Err(why) => self.end_turns(&Err(RpcError::internal(format!("{why}.")))).await,
        }
    }

    /// Asks the user for the next pending action, or ends the turns. The session is idle.
    async fn settle(&mut self) {
        self.idle = None;
        while let Some(event) = self.opened.events.try_next().await {
            self.event(&event.event).await;
        }
        let Ok(state) = self.opened.handle.state().await else { return };
        let asks = self.asking.is_some() || self.consenting.is_some();
        if state.is_running || asks || self.command.is_some() {
            return; // whatever ends them checks once more
        }
        self.idle = None;
        let key = |action: &ExternalAction| (action.call.clone(), action.digest.clone());
        let unasked = |action: &&ExternalAction| !self.asked.contains(&key(action));
        let next = state.pending_actions.iter().find(unasked).cloned();
        if let Some(action) = next.filter(|_| !self.is_cancelled) {
            self.asked.insert(key(&action));
            return self.ask(action).await;
        }
        let is_queued = !state.steering_queue.is_empty() || !state.follow_up_queue.is_empty();
        if is_queued && self.outcome.as_ref().is_some_and(|outcome| outcome.has_finished()) {
            // The steer arrived after the end of its run.
            return self.send(InputEvent::Continue(None)).await;
        }
        self.finish(&state).await;
    }

    async fn finish(&mut self, state: &AgentState) {
        let result = match &self.outcome {
            _ if self.is_cancelled => Ok("cancelled"),
            Some(outcome) => stop_reason(outcome),
            None => Ok("end_turn"),
        };
        if let Some(what) = waiting(&state.pending_actions) {
            let session = &self.opened.session.name;
            let actions = format!("`{} actions {session}`", self.program.names.app());
            self.notice(&format!("\n\n{what} for a decision: {actions} lists what.")).await;
        }
        if let (Err(why), true) = (&result, self.turns.is_empty()) {
            self.notice(&format!("\n\n{why}")).await;
        }
        if state.pending_actions.is_empty() {
            self.asked.clear();
        }
        self.outcome = None;
        self.end_turns(&result).await;
    }

    async fn end_turns(&mut self, result: &Result<&'static str, RpcError>) {
        self.is_cancelled = false;
        for turn in std::mem::take(&mut self.turns) {
            let result = result.clone().map(|reason| json!({ "stopReason": reason }));
            self.client.respond(&turn, result).await;
        }
    }

    /// Asks the user, unless the tool has just been allowed.
    async fn ask(&mut self, action: ExternalAction) {
        let protected = protected_file(&action.name, &action.arguments);
        let can_always = action.request.is_none() && action.path.is_empty() && protected.is_none();
        if can_always && self.opened.allowed.has_tool(&action.name) {
            return self.decide(&action, Decision::Approve, None).await;
        }
        self.asking =
            Some(ask(&mut self.opened, &self.client, action, protected, can_always).await);
    }

    async fn answered(&mut self, action: ExternalAction, answer: Answer, shown: Option<Arc<str>>) {
        self.asking = None;
        match answer {
            Answer::Decision(decision) => self.decide(&action, decision, shown).await,
            Answer::Always => {
                self.opened.allowed.add(&action.name);
                self.decide(&action, Decision::Approve, shown).await;
            }
            Answer::Cancelled => self.cancel().await,
            _ => self.watch_idle(), // the action stays pending
        }
    }

    /// Sends a decision. `shown` is the digest of the change that the user has seen.
    async fn decide(
        &mut self,
        action: &ExternalAction,
        decision: Decision,
        shown: Option<Arc<str>>,
    ) {
        let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
        let event = InputEvent::ExternalActionResult(result.source("acp").change(shown));
        if let Err(why) = self.opened.handle.send(event).await {
            self.notice(&format!("\n\nThe decision was refused: {why}.\n\n")).await;
        }
        self.watch_idle();
    }

    async fn replied(&mut self, reply: Result<SlashReply, String>) {
        self.command = None;
        match reply {
            Ok(SlashReply::Show(text)) | Err(text) => self.notice(&text).await,
            Ok(SlashReply::Send(text)) => return self.request(text.into()).await,
        }
        self.watch_idle();
    }

    /// Closes the session, and deletes it if it was never used. Open turns end.
    async fn close(mut self) {
        let handle = self.opened.handle.clone();
        let is_running = handle.state().await.is_ok_and(|state| state.is_running);
        if is_running && !handle.is_attached() {
            let _ = handle.abort().await; // unless the run has ended
            handle.wait_for_idle().await;
        }
        self.end_turns(&Ok("cancelled")).await;
        let Opened { session, handle, .. } = self.opened;
        drop((self.idle, self.command));
        session.close(&handle).await;
    }
}

/// The user's answer whether a server may start.
#[derive(PartialEq, Eq)]
enum Consented {
    Given,
    Refused,
    Cancelled,
}

impl Consented {
    fn read(outcome: &Value) -> Self {
        match outcome["optionId"] == ALLOW {
            true => Consented::Given,
            false if outcome["outcome"] == "cancelled" => Consented::Cancelled,
            false => Consented::Refused,
        }
    }
}

/// Returns the request for permission to start a server of the editor.
fn permission(session: &str, consent: &Consent) -> Value {
    let call = json!({
        "toolCallId": format!("mcp-{}", consent.name),
        "title": format!("Start the MCP server `{}`", consent.name),
        "kind": "execute",
        "status": "pending",
        "content": [text_content(&consent.description)],
    });
    let options = json!([
        { "optionId": ALLOW, "name": "Start it, now and later", "kind": "allow_always" },
        { "optionId": "reject", "name": "Not in this session", "kind": "reject_once" },
    ]);
    json!({ "sessionId": session, "toolCall": call, "options": options })
}

/// Waits for a future, or forever if it is `None`.
async fn or_never<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
