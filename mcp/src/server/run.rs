//! One call: the inputs that it sends to its session, and the events that it follows.

use futures_util::FutureExt;
use loopwright_core::AgentEvent;
use loopwright_core::agent::InputError;
use loopwright_core::event::{
    AbortRequest, ActionResult, ExternalAction, InputEvent, Prompt, RunOutcome, RunStatus,
};
use loopwright_core::message::{CallId, Message};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ElicitRequest,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::call::{AgentCall, RequestState};
use super::elicitation::{decode_elicit_result, form, is_elicitable};
use super::host::{HostSession, ServedTool, SessionHost, ToolKind};
use super::progress::Progress;
use super::reply;

/// The name of this front end in the log of decisions.
const SOURCE: &str = "mcp";
/// The number of notifications that wait for a client that reads slowly; further ones are dropped.
const MAX_UNREAD: usize = 256;
/// How often the user of a client is asked again about actions whose answers were not accepted.
const MAX_PROBLEMS: usize = 10;

/// Carries out a call of this tool.
pub(super) async fn carry_out(
    host: &dyn SessionHost,
    tool: &ServedTool,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let state = request.request_state.as_deref().map(RequestState::decode).transpose();
    let state = state.map_err(|why| ErrorData::invalid_params(why, None))?;
    let arguments = request.arguments.unwrap_or_default();
    let (session, start) = match (state, &tool.kind) {
        (Some(state), _) => {
            let answers = request.input_responses.unwrap_or_default();
            (Some(state.session.clone()), Start::Answers(state, answers))
        }
        (None, ToolKind::Agent) => match AgentCall::decode(&arguments) {
            Ok(call) => (call.session, call.message.map_or(Start::Continue, Start::Message)),
            Err(why) => return Ok(reply::failed(why).into()),
        },
        (None, ToolKind::Tool(_)) => {
            (None, Start::Message(Value::Object(arguments).to_string()))
        }
    };
    let session = match host.open(&tool.name, session.as_deref()).await {
        Ok(session) => session,
        Err(why) => return Ok(reply::failed(why).into()),
    };
    let notifier = context.meta.get_progress_token().map(|token| {
        Notifier::start(context.peer.clone(), token)
    });
    let asks = Asks::of(&context);
    let mut run = Run {
        host,
        tool,
        session,
        context,
        asks,
        notifier,
        progress: Progress::default(),
        outcome: None,
        result: None,
        is_aborted: false,
    };
    run.notify(format!("Session {}", run.session.id()));
    let done = run.until_done(start).await;
    if let Some(notifier) = run.notifier.take() {
        notifier.end().await;
    }
    Ok(done.unwrap_or_else(|why| reply::failed(why.0).into()))
}

/// What a call does first.
enum Start {
    Message(String),
    /// Continues the session without a message.
    Continue,
    /// Sends the answers to an `input_required` result.
    Answers(RequestState, InputResponses),
}

/// How the user of a client is asked for decisions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// By requests to the client. `arrays` says that it knows properties that are arrays.
    ByRequest { arrays: bool },
    /// By the result of the call, which the client repeats.
    ByResult,
    /// Not at all.
    Never,
}

impl Asks {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let has_forms = |capabilities: ClientCapabilities| {
            let elicitation = capabilities.elicitation;
            elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
        };
        let version = context.protocol_version();
        let is_since = |first: ProtocolVersion| version.as_ref().is_some_and(|v| *v >= first);
        match context.client_capabilities().is_some_and(has_forms) {
            true if is_since(ProtocolVersion::V_2026_07_28) => Asks::ByResult,
            true => Asks::ByRequest { arrays: is_since(ProtocolVersion::V_2025_11_25) },
            false => Asks::Never,
        }
    }
}

/// Why a call cannot continue, as a sentence for the client.
struct Stopped(String);

impl From<InputError> for Stopped {
    fn from(why: InputError) -> Self {
        Stopped(format!("The session has not accepted it: {why}."))
    }
}

/// How the user has reacted to a form.
enum Answered {
    Decided,
    /// The answer was not accepted, for this reason.
    Refused(String),
    /// The user has dismissed the form, or the client has failed to show it.
    Dismissed,
}

/// A call in progress.
struct Run<'h> {
    host: &'h dyn SessionHost,
    tool: &'h ServedTool,
    session: Box<dyn HostSession>,
    context: RequestContext<RoleServer>,
    asks: Asks,
    notifier: Option<Notifier>,
    progress: Progress,
    /// The outcome of the last run that has ended.
    outcome: Option<Arc<RunOutcome>>,
    /// The last result of a tool.
    result: Option<Arc<Message>>,
    is_aborted: bool,
}

impl Run<'_> {
    async fn until_done(&mut self, start: Start) -> Result<CallToolResponse, Stopped> {
        let mut asks_user = true;
        let mut problem = None;
        match start {
            Start::Message(text) => self.send(InputEvent::UserRequest(Prompt::from(text))).await?,
            Start::Continue => self.continue_session().await?,
            Start::Answers(state, answers) => match self.take_answers(&state, &answers).await? {
                Answered::Decided => {}
                Answered::Refused(why) => problem = Some(why),
                Answered::Dismissed => asks_user = false,
            },
        }
        for _ in 0..MAX_PROBLEMS {
            loop {
                self.follow().await?;
                let pending = self.session.pending().await?;
                if pending.is_empty() || self.is_aborted {
                    return self.result().await.map(CallToolResponse::from);
                }
                let asked = pending.iter().find(|action| asks_user && is_elicitable(action));
                let answered = match (self.asks, asked) {
                    (Asks::Never, _) | (_, None) => {
                        return Ok(self.awaiting(pending, problem.as_deref()).into());
                    }
                    (Asks::ByResult, _) => {
                        return Ok(self.input_required(&pending, problem.as_deref()).await);
                    }
                    (Asks::ByRequest { arrays }, Some(action)) => {
                        self.ask(action, problem.take().as_deref(), arrays).await?
                    }
                };
                match answered {
                    Answered::Decided => {}
                    Answered::Dismissed => asks_user = false,
                    Answered::Refused(why) => {
                        problem = Some(why);
                        break;
                    }
                }
            }
        }
        let pending = self.session.pending().await?;
        Ok(self.awaiting(pending, problem.as_deref()).into())
    }

    async fn send(&self, input: InputEvent) -> Result<(), Stopped> {
        Ok(self.session.send(input).await?)
    }

    /// Resumes what was interrupted. Does nothing if the session works already, waits for
    /// decisions, or is done.
    async fn continue_session(&self) -> Result<(), Stopped> {
        if !self.session.pending().await?.is_empty() {
            return Ok(());
        }
        match self.session.send(InputEvent::Continue(None)).await {
            Ok(()) | Err(InputError::Busy | InputError::NothingToContinue) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Follows the session until it is idle. A cancelled call aborts its run.
    async fn follow(&mut self) -> Result<(), Stopped> {
        let mut idle = self.session.idle();
        loop {
            tokio::select! { biased;
                () = self.context.ct.cancelled(), if !self.is_aborted => self.abort().await,
                event = self.session.next() => match event {
                    Some(event) => self.apply(&event.event),
                    None => return Err(self.gone()),
                },
                () = &mut idle => break,
            }
        }
        while let Some(Some(event)) = self.session.next().now_or_never() {
            self.apply(&event.event);
        }
        Ok(())
    }

    async fn abort(&mut self) {
        self.is_aborted = true;
        let _ = self.session.send(InputEvent::Abort(AbortRequest::new())).await; // or it has ended
    }

    fn gone(&self) -> Stopped {
        Stopped(format!(
            "The session `{}` has ended here: its store has failed, or another process has taken \
             it over. Call again with this session to continue it.",
            self.session.id()
        ))
    }

    fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentEnd(outcome) => self.outcome = Some(outcome.clone()),
            AgentEvent::ToolExecutionEnd { result, .. } => self.result = Some(result.clone()),
            _ => {}
        }
        self.progress.apply(event);
        while let Some(line) = self.progress.next_line() {
            self.notify(line);
        }
    }

    fn notify(&mut self, line: String) {
        if let Some(notifier) = &mut self.notifier {
            notifier.notify(line);
        }
    }

    /// Asks the client's user about an action, while the session may resolve it otherwise: by
    /// another front end, or at its deadline.
    async fn ask(
        &mut self,
        action: &ExternalAction,
        problem: Option<&str>,
        arrays: bool,
    ) -> Result<Answered, Stopped> {
        let preview = self.session.preview(action).await;
        let Some(form) = form(action, preview.as_deref(), problem, arrays) else {
            return Ok(Answered::Dismissed);
        };
        let peer = self.context.peer.clone();
        let mut answer = std::pin::pin!(peer.create_elicitation(form));
        let answer = loop {
            tokio::select! { biased;
                () = self.context.ct.cancelled() => {
                    self.abort().await;
                    return Ok(Answered::Decided);
                }
                answer = &mut answer => break answer,
                event = self.session.next() => {
                    let Some(event) = event else { return Err(self.gone()) };
                    self.apply(&event.event);
                    if resolves(&event.event, &action.call) {
                        return Ok(Answered::Decided);
                    }
                }
            }
        };
        match answer.map(serde_json::to_value) {
            Ok(Ok(answer)) => self.decide(action, &action.digest, &answer).await,
            _ => Ok(Answered::Dismissed),
        }
    }

    /// Decides the actions that a client was asked about by a result.
    async fn take_answers(
        &self,
        state: &RequestState,
        answers: &InputResponses,
    ) -> Result<Answered, Stopped> {
        let mut all = Answered::Decided;
        for action in self.session.pending().await? {
            let shown = state.digests.get(&*action.call);
            let Some((digest, answer)) = shown.zip(answers.get(&*action.call)) else { continue };
            match self.decide(&action, digest, answer).await? {
                Answered::Decided => {}
                other => all = other,
            }
        }
        Ok(all)
    }

    /// Sends the decision that an answer stands for. `digest` is that of what was shown.
    async fn decide(
        &self,
        action: &ExternalAction,
        digest: &str,
        answer: &Value,
    ) -> Result<Answered, Stopped> {
        let decision = match decode_elicit_result(action, answer) {
            Ok(Some(decision)) => decision,
            Ok(None) => return Ok(Answered::Dismissed),
            Err(why) => return Ok(Answered::Refused(why)),
        };
        let result = ActionResult::new(action.call.clone(), digest, decision).source(SOURCE);
        match self.session.send(InputEvent::ExternalActionResult(result)).await {
            Ok(()) | Err(InputError::NotPending(_)) => Ok(Answered::Decided),
            Err(why @ (InputError::Gone | InputError::Moved | InputError::Memory(_))) => {
                Err(why.into())
            }
            Err(why) => Ok(Answered::Refused(format!("The decision was not accepted: {why}."))),
        }
    }

    /// Returns the result that makes the client ask its user and repeat the call.
    async fn input_required(
        &self,
        pending: &[ExternalAction],
        problem: Option<&str>,
    ) -> CallToolResponse {
        let mut requests = InputRequests::new();
        let mut shown = Vec::new();
        for action in pending.iter().filter(|action| is_elicitable(action)) {
            let preview = self.session.preview(action).await;
            if let Some(form) = form(action, preview.as_deref(), problem, true) {
                let request = InputRequest::Elicitation(ElicitRequest::new(form));
                requests.insert(action.call.to_string(), request);
                shown.push(action);
            }
        }
        let state = RequestState::new(self.session.id(), shown).encode();
        InputRequiredResult::new(Some(requests), Some(state)).into()
    }

    fn awaiting(&self, pending: Vec<ExternalAction>, problem: Option<&str>) -> CallToolResult {
        let how = |action: &ExternalAction| self.host.how_to_decide(self.session.id(), action);
        let pending: Vec<_> =
            pending.into_iter().map(|action| (how(&action), action)).map(|(a, b)| (b, a)).collect();
        match self.tool.kind {
            ToolKind::Agent => reply::awaiting(self.session.id(), &pending, problem),
            ToolKind::Tool(_) => {
                let how: Vec<&str> = problem.into_iter().collect();
                let how = how.into_iter().chain(pending.iter().map(|(_, how)| &**how));
                reply::failed(how.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// Returns the result of a session that is idle and waits for nothing.
    async fn result(&self) -> Result<CallToolResult, Stopped> {
        let outcome = match &self.outcome {
            Some(outcome) => Some(outcome.clone()),
            None => self.session.last_outcome().await.map_err(Stopped)?,
        };
        let result = self.result.as_deref().and_then(Message::as_tool_result);
        match (&self.tool.kind, outcome, result) {
            (ToolKind::Tool(_), _, Some(result)) => Ok(reply::of_tool(result)),
            (ToolKind::Tool(_), Some(outcome), None) if outcome.end != RunStatus::Done => {
                let why = outcome.error.as_deref().unwrap_or("The call was aborted.");
                Err(Stopped(why.to_owned()))
            }
            (ToolKind::Agent, Some(outcome), _) => {
                Ok(reply::of_agent(self.session.id(), &outcome))
            }
            _ => Err(Stopped(format!(
                "The session `{}` has no reply: send it a message.",
                self.session.id()
            ))),
        }
    }
}

/// Returns whether an event resolves the action of this call.
fn resolves(event: &AgentEvent, action: &CallId) -> bool {
    match event {
        AgentEvent::ExternalActionEnd { call, .. } | AgentEvent::ToolExecutionEnd { call, .. } => {
            call == action
        }
        _ => false,
    }
}

/// Sends notifications of progress in the order of their numbers.
struct Notifier {
    lines: mpsc::Sender<String>,
    sender: JoinHandle<()>,
}

impl Notifier {
    fn start(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let (lines, mut unread) = mpsc::channel::<String>(MAX_UNREAD);
        let sender = tokio::spawn(async move {
            let mut number = 0.0;
            while let Some(line) = unread.recv().await {
                number += 1.0;
                let progress = ProgressNotificationParam::new(token.clone(), number);
                if peer.notify_progress(progress.with_message(line)).await.is_err() {
                    return; // the client is gone
                }
            }
        });
        Notifier { lines, sender }
    }

    /// Sends a line, unless the client has not read those before.
    fn notify(&mut self, line: String) {
        let _ = self.lines.try_send(line);
    }

    /// Waits until all lines are sent.
    async fn end(self) {
        drop(self.lines);
        let _ = self.sender.await;
    }
}
