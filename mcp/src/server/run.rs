//! One call: its inputs to the session, and the events that it follows.

use std::pin::pin;
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::agent::InputError;
use loopwright_core::event::{
    ActionResult, Decision, Envelope, ExternalAction, InputEvent, Prompt, RunOutcome,
};
use loopwright_core::message::Message;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequest, ErrorData,
    InputRequest, InputRequiredResult, InputResponses, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::call::{AgentCall, RequestState, Shown};
use super::elicitation::{decode_elicit_result, form, is_elicitable};
use super::host::{HostSession, ServedTool, SessionHost};
use super::in_progress::CallsInProgress;
use super::progress::Progress;
use super::reply;

/// The source of this front end's decisions, in the log.
const SOURCE: &str = "mcp";
/// The maximum number of times a user is asked again after a rejected answer.
const MAX_PROBLEMS: usize = 10;

/// Carries out a call of a tool.
pub(super) async fn carry_out(
    host: &dyn SessionHost,
    tool: &ServedTool,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    in_progress: &CallsInProgress,
) -> Result<CallToolResponse, ErrorData> {
    let state = request.request_state.as_deref().map(RequestState::decode).transpose();
    let state = state.map_err(|why| ErrorData::invalid_params(why, None))?;
    let arguments = request.arguments.unwrap_or_default();
    let (session, start) = match (state, &tool.spec) {
        (Some(state), _) => {
            let answers = request.input_responses.unwrap_or_default();
            (Some(state.session.clone()), Start::Answers(state, answers))
        }
        (None, Some(_)) => (None, Start::Message(Value::Object(arguments).to_string())),
        (None, None) => match AgentCall::decode(&arguments) {
            Ok(call) => (call.session, call.message.map_or(Start::Continue, Start::Message)),
            Err(why) => return Ok(reply::failed(why).into()),
        },
    };
    let mut guard = None;
    if let Some(session) = &session {
        let earlier = in_progress.cancelled(session);
        guard = Some(in_progress.add(session, context.ct.clone()));
        tokio::select! { biased;
            () = context.ct.cancelled() => return Ok(reply::failed("It was cancelled.").into()),
            () = earlier => {}
        }
    }
    let session = match host.open(&tool.name, session.as_deref()).await {
        Ok(session) => session,
        Err(why) => return Ok(reply::failed(why).into()),
    };
    let _guard = guard.unwrap_or_else(|| in_progress.add(session.id(), context.ct.clone()));
    let mut call = Call {
        host,
        tool,
        session,
        context,
        progress: Progress::default(),
        sent: 0,
        outcome: None,
        result: None,
        is_aborted: false,
    };
    let first = format!("Session {}", call.session.id());
    call.notify(first).await;
    let done = call.until_done(start).await;
    call.session.close().await;
    Ok(done.unwrap_or_else(|why| reply::failed(why).into()))
}

/// The first step of a call.
enum Start {
    Message(String),
    /// A continuation of the session without a message.
    Continue,
    /// The answers to an earlier `input_required` result.
    Answers(RequestState, InputResponses),
}

/// The outcome of a form.
enum Answered {
    Decided,
    /// The session has rejected the answer, for this reason.
    Refused(String),
    /// The user has dismissed the form, or the client has failed to show it.
    Dismissed,
}

/// A call in progress.
struct Call<'h> {
    host: &'h dyn SessionHost,
    tool: &'h ServedTool,
    session: HostSession,
    context: RequestContext<RoleServer>,
    progress: Progress,
    /// The number of progress notifications sent.
    sent: u32,
    /// The outcome of the last run of this call.
    outcome: Option<Arc<RunOutcome>>,
    /// The last result of a tool in this call.
    result: Option<Arc<Message>>,
    is_aborted: bool,
}

impl Call<'_> {
    /// Runs the call and returns its response. An error is a sentence for the client.
    async fn until_done(&mut self, start: Start) -> Result<CallToolResponse, String> {
        let started = match start {
            Start::Message(text) => {
                let sent =
                    self.session.handle.send(InputEvent::UserRequest(Prompt::from(text))).await;
                sent.map_err(refused)?;
                Answered::Decided
            }
            Start::Continue => self.resume().await?,
            Start::Answers(state, answers) => self.take_answers(&state, &answers).await?,
        };
        let (mut answered, mut problems) = (started, 0);
        loop {
            self.follow().await?;
            let pending = self.session.handle.pending().await.map_err(refused)?;
            if pending.is_empty() || self.is_aborted {
                return self.result().await.map(CallToolResponse::from);
            }
            let (problem, is_dismissed) = match answered {
                Answered::Decided => (None, false),
                Answered::Refused(why) => (Some(why), problems == MAX_PROBLEMS),
                Answered::Dismissed => (None, true),
            };
            problems += usize::from(problem.is_some());
            let action = pending.iter().find(|action| is_elicitable(action) && !is_dismissed);
            let Some(action) = action.filter(|_| self.has_forms()) else {
                let result = self.awaiting(&pending, problem.as_deref());
                if self.tool.spec.is_some() {
                    self.abort().await; // nobody can decide later
                    self.follow().await?;
                }
                return Ok(result.into());
            };
            if self.is_since(ProtocolVersion::V_2026_07_28) {
                return Ok(self.input_required(&pending, problem.as_deref()).await);
            }
            answered = self.ask(action, problem.as_deref()).await?;
        }
    }

    /// Returns whether the client supports forms for its user.
    fn has_forms(&self) -> bool {
        let modes = self.context.client_capabilities().and_then(|client| client.elicitation);
        modes.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }

    /// Returns whether the client uses this version of the protocol or a later one.
    fn is_since(&self, version: ProtocolVersion) -> bool {
        self.context.protocol_version().is_some_and(|actual| actual >= version)
    }

    /// Resumes interrupted work. Does nothing if the session is working, waits for decisions, or is
    /// done.
    async fn resume(&self) -> Result<Answered, String> {
        if self.session.handle.pending().await.map_err(refused)?.is_empty() {
            match self.session.handle.send(InputEvent::Continue(None)).await {
                Ok(_) | Err(InputError::Busy | InputError::NothingToContinue) => {}
                Err(why) => return Err(refused(why)),
            }
        }
        Ok(Answered::Decided)
    }

    /// Follows the session until it is idle. A cancelled call aborts its run.
    async fn follow(&mut self) -> Result<(), String> {
        let handle = self.session.handle.clone();
        let mut idle = pin!(handle.wait_for_idle());
        loop {
            tokio::select! { biased;
                () = self.context.ct.cancelled(), if !self.is_aborted => self.abort().await,
                event = self.session.events.next() => self.apply(event).await?,
                () = &mut idle => break,
            }
        }
        while let Some(event) = self.session.events.try_next().await {
            self.apply(Some(event)).await?;
        }
        Ok(())
    }

    async fn abort(&mut self) {
        self.is_aborted = true;
        let _ = self.session.handle.abort().await; // unless it has ended
    }

    /// Applies the next event of the session.
    async fn apply(&mut self, event: Option<Arc<Envelope>>) -> Result<(), String> {
        let Some(event) = event else {
            return Err(format!(
                "The session `{}` has ended here: its store has failed, or another process has \
                 taken it over. Call again with this session to continue it.",
                self.session.id()
            ));
        };
        match &event.event {
            AgentEvent::AgentEnd(outcome) => self.outcome = Some(outcome.clone()),
            AgentEvent::ToolExecutionEnd { result, .. } => self.result = Some(result.clone()),
            _ => {}
        }
        self.progress.apply(&event.event);
        while let Some(line) = self.progress.next_line() {
            self.notify(line).await;
        }
        Ok(())
    }

    /// Sends a progress notification, if the client has asked for them.
    async fn notify(&mut self, line: String) {
        if let Some(token) = self.context.meta.get_progress_token() {
            self.sent += 1;
            let progress = ProgressNotificationParam::new(token, f64::from(self.sent));
            let progress = progress.with_message(line);
            let _ = self.context.peer.notify_progress(progress).await; // unless it is gone
        }
    }

    /// Asks the client's user about an action. Meanwhile the session may resolve the action
    /// otherwise: by another front end, or at its deadline.
    async fn ask(
        &mut self,
        action: &ExternalAction,
        problem: Option<&str>,
    ) -> Result<Answered, String> {
        let preview = self.session.preview_of(action).await;
        let shown = Shown::of(action, preview.as_deref());
        let arrays = self.is_since(ProtocolVersion::V_2025_11_25);
        let Some(form) = form(action, preview.as_deref(), problem, arrays) else {
            return Ok(Answered::Dismissed);
        };
        let peer = self.context.peer.clone();
        let mut answer = pin!(peer.create_elicitation(form));
        loop {
            tokio::select! { biased;
                () = self.context.ct.cancelled() => {
                    self.abort().await;
                    return Ok(Answered::Decided);
                }
                answer = &mut answer => return match answer.map(serde_json::to_value) {
                    Ok(Ok(answer)) => self.decide(action, &shown, &answer).await,
                    _ => Ok(Answered::Dismissed),
                },
                event = self.session.events.next() => {
                    let is_decided = event.as_deref().is_some_and(|event| decides(event, action));
                    self.apply(event).await?;
                    if is_decided {
                        return Ok(Answered::Decided);
                    }
                }
            }
        }
    }

    /// Sends the decisions in the answers to an `input_required` result.
    async fn take_answers(
        &self,
        state: &RequestState,
        answers: &InputResponses,
    ) -> Result<Answered, String> {
        let mut all = Answered::Decided;
        for action in self.session.handle.pending().await.map_err(refused)? {
            let shown = state.shown.get(&*action.call).zip(answers.get(&*action.call));
            let Some((shown, answer)) = shown else { continue };
            match self.decide(&action, shown, answer).await? {
                Answered::Decided => {}
                other => all = other,
            }
        }
        Ok(all)
    }

    /// Sends the decision in an answer to what was shown.
    async fn decide(
        &self,
        action: &ExternalAction,
        shown: &Shown,
        answer: &Value,
    ) -> Result<Answered, String> {
        let decision = match decode_elicit_result(action, answer) {
            Ok(Some(decision)) => decision,
            Ok(None) => return Ok(Answered::Dismissed),
            Err(why) => return Ok(Answered::Refused(why)),
        };
        // The preview was of the arguments as they were.
        let change = shown.change.clone().filter(|_| decision == Decision::Approve);
        let result = ActionResult::new(action.call.clone(), &*shown.digest, decision);
        let result = result.source(SOURCE).change(change);
        match self.session.handle.send(InputEvent::ExternalActionResult(result)).await {
            Ok(_) | Err(InputError::NotPending(_)) => Ok(Answered::Decided),
            Err(why @ (InputError::Gone | InputError::Moved | InputError::Memory(_))) => {
                Err(refused(why))
            }
            Err(why) => Ok(Answered::Refused(refused(why))),
        }
    }

    /// Returns the result that asks the client to ask its user and repeat the call.
    async fn input_required(
        &self,
        pending: &[ExternalAction],
        problem: Option<&str>,
    ) -> CallToolResponse {
        let mut requests = Vec::new();
        let mut state = RequestState::new(self.session.id());
        for action in pending.iter().filter(|action| is_elicitable(action)) {
            let preview = self.session.preview_of(action).await;
            if let Some(form) = form(action, preview.as_deref(), problem, true) {
                let shown = Shown::of(action, preview.as_deref());
                state.shown.insert(action.call.to_string(), shown);
                let request = InputRequest::Elicitation(ElicitRequest::new(form));
                requests.push((action.call.to_string(), request));
            }
        }
        let state = Some(state.encode());
        InputRequiredResult::new(Some(requests.into_iter().collect()), state).into()
    }

    fn awaiting(&self, pending: &[ExternalAction], problem: Option<&str>) -> CallToolResult {
        let how = |action| self.host.how_to_decide(self.session.id(), action);
        let how: Vec<String> = pending.iter().map(how).collect();
        match self.tool.spec {
            None => reply::awaiting(self.session.id(), pending, &how, problem),
            Some(_) => reply::failed(how.join("\n")),
        }
    }

    /// Returns the result of an idle session without pending actions.
    async fn result(&self) -> Result<CallToolResult, String> {
        let outcome = match &self.outcome {
            Some(outcome) => Some(outcome.clone()),
            None => self.session.last_outcome().await?,
        };
        let none = || format!("The session `{}` has no reply yet.", self.session.id());
        let outcome = outcome.ok_or_else(none)?;
        let result = self.result.as_deref().and_then(Message::as_tool_result);
        Ok(match (&self.tool.spec, result) {
            (None, _) => reply::of_agent(self.session.id(), &outcome),
            (Some(_), Some(result)) => reply::of_tool(result),
            (Some(_), None) => {
                reply::failed(outcome.error.as_deref().unwrap_or("The call was aborted."))
            }
        })
    }
}

/// Returns whether an event is the decision on an action.
fn decides(event: &Envelope, action: &ExternalAction) -> bool {
    matches!(&event.event, AgentEvent::ExternalActionEnd { call, .. } if *call == action.call)
}

/// Returns a sentence for the client about an input that the session has refused.
fn refused(why: InputError) -> String {
    format!("The session has not accepted it: {why}.")
}
