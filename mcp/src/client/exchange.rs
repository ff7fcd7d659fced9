//! [`Exchange`]: a call of a server's tool in progress, which may ask the user.

// SEP-2577 has deprecated sampling; servers of earlier versions use it.
#![allow(deprecated)]

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::tool::Question;
use loopwright_core::{ChatModel, ToolContext, ToolError, ToolOutput, excerpt};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CreateMessageRequestParams,
    CreateMessageResult, ElicitResult, ErrorData, InputRequest, InputRequiredResult,
    InputResponses, ListRootsResult, ProgressNotificationParam, Root, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::decode::output_of;
use super::elicitation::{self, AnswerShape};
use super::frames::UNREADABLE;
use super::handler::{Inbox, Routes, ServerRequest};
use super::sampling;

/// The maximum number of times a server may answer a call with requests for input (SEP-2322).
const MAX_ROUNDS: usize = 10;
/// The maximum length of a line of progress.
const MAX_PROGRESS_BYTES: usize = 500;

/// A call in progress. Dropping it cancels the call.
pub(super) struct Exchange {
    peer: Peer<RoleClient>,
    routes: Arc<Routes>,
    params: CallToolRequestParams,
    sent: Option<Sent>,
    /// The input that the server requested instead of a result, until the call is repeated.
    retry: Option<Retry>,
    rounds: usize,
    pending: Option<Pending>,
}

/// A request that awaits its response.
struct Sent {
    handle: RequestHandle<RoleClient>,
    inbox: Inbox,
}

/// The input that a server requested in its response (SEP-2322).
struct Retry {
    missing: VecDeque<(String, InputRequest)>,
    responses: InputResponses,
    state: Option<String>,
}

/// A request that waits for the user.
enum Pending {
    Elicitation(AnswerShape, ReplyTo<ElicitResult>),
    Sampling(Box<CreateMessageRequestParams>, ReplyTo<Result<CreateMessageResult, ErrorData>>),
}

/// The destination of an answer: a request of the server, or the next round.
enum ReplyTo<T> {
    Request(oneshot::Sender<T>),
    Round(String),
}

/// The settings of the server that a call needs.
pub(super) struct Host<'a> {
    pub(super) server: &'a str,
    pub(super) roots: &'a [Root],
    pub(super) model: Option<&'a dyn ChatModel>,
}

/// The reason why [`Exchange::run`] returned.
pub(super) enum Step {
    Finished(Result<ToolOutput, ToolError>),
    /// The user must answer this question. The call continues with [`Exchange::answer`].
    Asks(Question),
}

impl Exchange {
    /// Sends a call.
    pub(super) async fn start(
        peer: Peer<RoleClient>,
        routes: Arc<Routes>,
        params: CallToolRequestParams,
    ) -> Result<Self, ServiceError> {
        let mut exchange =
            Exchange { peer, routes, params, sent: None, retry: None, rounds: 0, pending: None };
        exchange.send().await?;
        Ok(exchange)
    }

    async fn send(&mut self) -> Result<(), ServiceError> {
        let request = CallToolRequest::new(self.params.clone());
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let handle = self.peer.send_request_with_option(request, options).await?;
        let inbox = self.routes.add(handle.id.clone(), handle.progress_token.clone());
        self.sent = Some(Sent { handle, inbox });
        Ok(())
    }

    /// Runs the call until it ends or asks the user.
    pub(super) async fn run(&mut self, cx: &ToolContext, host: &Host<'_>) -> Step {
        loop {
            if let Some(question) = self.next_input(host) {
                return Step::Asks(question);
            }
            if self.retry.is_some()
                && let Err(why) = self.retry_call().await
            {
                return Step::Finished(Err(failure(host.server, why)));
            }
            let Some(Sent { handle, inbox }) = &mut self.sent else {
                return Step::Finished(Err(failure(host.server, ServiceError::TransportClosed)));
            };
            tokio::select! {
                biased;
                () = cx.cancelled() => return Step::Finished(Err(ToolError::Cancelled)),
                Some(progress) = inbox.progress.recv() => report(cx, progress).await,
                Some(request) = inbox.requests.recv() => {
                    if let Some(question) = self.ask(host.server, request) {
                        return Step::Asks(question);
                    }
                }
                response = &mut handle.rx => {
                    let response = response.unwrap_or(Err(ServiceError::TransportClosed));
                    self.routes.remove(&handle.id);
                    self.sent = None;
                    match response {
                        Ok(ServerResult::InputRequiredResult(asked)) => self.start_round(asked),
                        response => return Step::Finished(result(host.server, response)),
                    }
                }
            }
        }
    }

    fn start_round(&mut self, asked: InputRequiredResult) {
        self.retry = Some(Retry {
            missing: asked.input_requests.unwrap_or_default().into_iter().collect(),
            responses: InputResponses::new(),
            state: asked.request_state,
        });
    }

    /// Answers the requests that need no user. Returns the next question to the user.
    fn next_input(&mut self, host: &Host<'_>) -> Option<Question> {
        let retry = self.retry.as_mut()?;
        while let Some((key, request)) = retry.missing.pop_front() {
            match request {
                InputRequest::ListRoots(_) => {
                    let roots = ListRootsResult::new(host.roots.to_vec());
                    retry.responses.insert(key, serde_json::to_value(roots).unwrap_or_default());
                }
                InputRequest::Elicitation(request) => {
                    let (question, shape) = elicitation::question(host.server, &request.params);
                    self.pending = Some(Pending::Elicitation(shape, ReplyTo::Round(key)));
                    return Some(question);
                }
                InputRequest::CreateMessage(request) => {
                    match sampling::question(host.server, &request.params) {
                        Ok(question) => {
                            let params = Box::new(request.params);
                            self.pending = Some(Pending::Sampling(params, ReplyTo::Round(key)));
                            return Some(question);
                        }
                        // The protocol has no field for the reason.
                        Err(_) => drop(retry.responses.insert(key, Value::Null)),
                    }
                }
                _ => {} // the server gets no response, and may ask in another way
            }
        }
        None
    }

    async fn retry_call(&mut self) -> Result<(), ServiceError> {
        let Some(retry) = self.retry.take() else { return Ok(()) };
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(ServiceError::InputRequiredRoundsExceeded { max_rounds: MAX_ROUNDS });
        }
        self.params.input_responses = Some(retry.responses);
        self.params.request_state = retry.state;
        self.send().await
    }

    /// Returns the question to the user, unless the request is refused.
    fn ask(&mut self, server: &str, request: ServerRequest) -> Option<Question> {
        match request {
            ServerRequest::Elicitation { params, reply } => {
                let (question, shape) = elicitation::question(server, &params);
                self.pending = Some(Pending::Elicitation(shape, ReplyTo::Request(reply)));
                Some(question)
            }
            ServerRequest::Sampling { params, reply } => {
                match sampling::question(server, &params) {
                    Ok(question) => {
                        self.pending = Some(Pending::Sampling(params, ReplyTo::Request(reply)));
                        Some(question)
                    }
                    Err(why) => {
                        let _ = reply.send(Err(why)); // it may have given up
                        None
                    }
                }
            }
        }
    }

    /// Sends the user's answer to the server.
    pub(super) async fn answer(&mut self, cx: &ToolContext, host: &Host<'_>, answer: Value) {
        match self.pending.take() {
            None => {}
            Some(Pending::Elicitation(shape, ReplyTo::Request(reply))) => {
                let _ = reply.send(elicitation::result(&shape, answer)); // it may have given up
            }
            Some(Pending::Elicitation(shape, ReplyTo::Round(key))) => {
                let result = elicitation::result(&shape, answer);
                self.respond(key, serde_json::to_value(result).unwrap_or_default());
            }
            Some(Pending::Sampling(params, reply)) => {
                // Dropping the reply refuses the request.
                let (sampling::ALLOW, Some(model)) =
                    (answer.as_str().unwrap_or_default(), host.model)
                else {
                    return;
                };
                let result = sampling::sample(cx, model, &params).await;
                match reply {
                    ReplyTo::Request(reply) => drop(reply.send(result)),
                    ReplyTo::Round(key) => {
                        let result = result.ok().and_then(|r| serde_json::to_value(r).ok());
                        self.respond(key, result.unwrap_or_default());
                    }
                }
            }
        }
    }

    fn respond(&mut self, key: String, response: Value) {
        if let Some(retry) = &mut self.retry {
            retry.responses.insert(key, response);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(Sent { handle, .. }) = self.sent.take() else { return };
        self.routes.remove(&handle.id);
        if let Ok(runtime) = Handle::try_current() {
            // MCP, *Cancellation*. The server may be gone.
            drop(runtime.spawn(handle.cancel(Some("The call was cancelled.".into()))));
        }
    }
}

async fn report(cx: &ToolContext, progress: ProgressNotificationParam) {
    let whole = |number: f64| number.clamp(0.0, 1e15) as u64; // saturates, and NaN is 0
    let message =
        excerpt::bytes(progress.message.as_deref().unwrap_or_default(), MAX_PROGRESS_BYTES);
    cx.progress(whole(progress.progress), progress.total.map(whole), message).await;
}

fn result(
    server: &str,
    response: Result<ServerResult, ServiceError>,
) -> Result<ToolOutput, ToolError> {
    match response {
        Ok(ServerResult::CallToolResult(result)) => output_of(result),
        Ok(other) => {
            // The SDK reads a result without `content` as the result of another request.
            let value = serde_json::to_value(&other).unwrap_or_default();
            match value.as_object().is_some_and(serde_json::Map::is_empty) || value.is_null() {
                true => Ok(ToolOutput::text("The result is empty.")),
                false => Err(unreadable(server, "its answer is not the result of a call")),
            }
        }
        Err(why) => Err(failure(server, why)),
    }
}

/// Returns whether the SDK has made this error, because a stream ended before its answer.
fn ended(error: &ErrorData) -> bool {
    let marker = "io.modelcontextprotocol/transportClosed";
    error.data.as_ref().is_some_and(|data| data.get(marker).is_some())
}

fn connection_ended(server: &str) -> String {
    format!(
        "The connection to the MCP server `{server}` ended during the call, which may have had \
         effects. Check before you call it again; the server is started again then."
    )
}

fn unreadable(server: &str, why: &str) -> ToolError {
    ToolError::Failed(format!(
        "The MCP server `{server}` has answered, but {why}. The call may have had effects. Check \
         before you call it again."
    ))
}

/// Returns the error of a failed call, for the model.
pub(super) fn failure(server: &str, why: ServiceError) -> ToolError {
    ToolError::Failed(match why {
        ServiceError::McpError(error) if error.data.as_ref().is_some_and(|it| it == UNREADABLE) => {
            return unreadable(server, &error.message);
        }
        ServiceError::McpError(error) if ended(&error) => connection_ended(server),
        ServiceError::McpError(error) => {
            let code = error.code.0;
            format!("The MCP server `{server}` refused the call: {} ({code}).", error.message)
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => connection_ended(server),
        other => format!("The MCP server `{server}` failed: {other}."),
    })
}
