//! [`ToolContext::generate`]: requests of tools to models, charged to their sessions.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};

use crate::error::{ModelError, ModelErrorKind, ToolError};
use crate::message::{AssistantMessage, MessageId, StopReason, Usage};
use crate::model::assemble::Assembler;
use crate::model::{ChatModel, ChatRequest, ModelEvent, ModelInfo};
use crate::session::request::shared_budget::BudgetPermit;
use crate::tool::{Report, ToolContext};

/// A report of a tool on one of its requests.
pub(crate) enum ToolRequest {
    Start(RequestStart),
    End(RequestEnd),
}

impl ToolRequest {
    pub(crate) fn report(self) -> Report {
        Report::Request(Box::new(self))
    }
}

/// A request that the session must charge for before it is sent.
pub(crate) struct RequestStart {
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) request: ChatRequest,
    /// Set once the request has its part of the budget that the session shares with others.
    pub(crate) permit: Option<BudgetPermit>,
    /// Channel for the number of the reply, or the reason why the request is not sent.
    pub(crate) ack: oneshot::Sender<Result<MessageId, String>>,
}

/// The end of a request that the session has charged for.
pub(crate) struct RequestEnd {
    pub(crate) message: MessageId,
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) reply: AssistantMessage,
}

/// A request in progress. When it is dropped, the session is charged for the usage so far.
struct Sent {
    reports: mpsc::Sender<Report>,
    message: MessageId,
    model: Arc<ModelInfo>,
    usage: Usage,
    has_ended: bool,
}

impl Sent {
    fn end(&self, reply: AssistantMessage) -> Report {
        let Sent { message, ref model, .. } = *self;
        ToolRequest::End(RequestEnd { message, model: model.clone(), reply }).report()
    }

    fn empty(&self, stop: StopReason) -> AssistantMessage {
        let (parts, model, usage) = (Vec::new(), self.model.id.clone(), self.usage);
        AssistantMessage { parts, stop, model, usage }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.has_ended {
            // Without room in the channel, the request stays charged until the run ends.
            let _ = self.reports.try_send(self.end(self.empty(StopReason::Interrupted)));
        }
    }
}

impl ToolContext {
    /// Sends a request to a model and returns the reply. The session is charged as for a detached
    /// request: it counts as a turn, and is logged before it is sent. Requests beyond the budget of
    /// the run, of the session, or of its shared budget are not sent.
    ///
    /// Dropping the future cancels the request. It is charged with the usage reported so far.
    ///
    /// # Errors
    ///
    /// Fails if a budget does not allow it, if the model fails, or without a session
    /// ([`ToolContext::detached`]).
    pub async fn generate(
        &self,
        model: &dyn ChatModel,
        mut request: ChatRequest,
    ) -> Result<AssistantMessage, ToolError> {
        request.session = self.session.clone();
        request.trace = self.trace.clone();
        let info = Arc::new(model.info().clone());
        let (ack, started) = oneshot::channel();
        let start =
            RequestStart { model: info.clone(), request: request.clone(), permit: None, ack };
        let _ = self.reports.send(ToolRequest::Start(start).report()).await;
        let no_session = |_| Err("no session is there that could be charged for it".to_owned());
        let message = started.await.unwrap_or_else(no_session);
        let message = message.map_err(|why| {
            ToolError::Failed(format!("The request to the model was not sent: {why}."))
        })?;
        let (reports, usage) = (self.reports.clone(), Usage::default());
        let mut sent = Sent { reports, message, model: info, usage, has_ended: false };
        let reply = read(&mut sent, model, request).await;
        sent.has_ended = true;
        let logged = match &reply {
            Ok(reply) => reply.clone(),
            Err(_) => sent.empty(StopReason::Error),
        };
        let _ = self.reports.send(sent.end(logged)).await;
        reply.map_err(|why| ToolError::Failed(format!("The model failed: {why}.")))
    }
}

/// Reads the reply to its end.
async fn read(
    sent: &mut Sent,
    model: &dyn ChatModel,
    request: ChatRequest,
) -> Result<AssistantMessage, ModelError> {
    let (mut events, mut assembler) = (model.stream(request), Assembler::default());
    let mut withdrawn = Usage::default();
    while let Some(event) = events.next().await {
        match event {
            ModelEvent::Done { stop, usage } => {
                sent.usage = withdrawn;
                sent.usage += usage;
                let reply = assembler.finish(stop, sent.model.id.clone(), sent.usage);
                return Ok(reply.unwrap_or_else(|| sent.empty(stop)));
            }
            ModelEvent::Error(error) => return Err(error),
            ModelEvent::Usage(usage) => {
                sent.usage = withdrawn;
                sent.usage += usage;
            }
            ModelEvent::AnsweredBy(other) => {
                withdrawn = sent.usage;
                sent.model = other;
            }
            ModelEvent::Withdrawn => {
                withdrawn = sent.usage;
                assembler.take(ModelEvent::Withdrawn)?;
            }
            event => drop(assembler.take(event)?),
        }
    }
    Err(ModelError::new(ModelErrorKind::Protocol, "its reply has no end"))
}
