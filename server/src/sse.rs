//! A session's events as an event stream, for routes of one's own.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use loopwright::{AgentEvent, Body, Content, Decision, Envelope, EventStream, Message, Part, Update};
use serde_json::Value;

/// How long a stream is silent before it says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Sends events to a client, each in a frame with its type, its JSON in one line, and its number if it has one of its own.
///
/// It takes a session's [`EventStream`], or its [`public`](ToPublic::public) form.
pub fn sse<S>(events: S) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static>
where
    S: Stream<Item = Arc<Envelope>> + Send + 'static,
{
    let mut numbering = Numbering::default();
    let frames = events.map(move |envelope| Ok(numbering.frame(&envelope)));
    Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

/// The response with these frames, which says now and then that it is there.
pub(crate) fn alive(frames: impl Stream<Item = Event> + Send + 'static) -> Response {
    let frames = Sse::new(frames.map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    // A proxy that keeps text back would make one piece of what streams.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    ([unbuffered], frames).into_response()
}

/// Knows the number of the last event. Only those with a number of their own have an id: so a browser that reconnects names
/// the last of them.
#[derive(Default)]
pub(crate) struct Numbering(pub(crate) u64);

impl Numbering {
    /// The next event.
    pub(crate) fn frame(&mut self, envelope: &Envelope) -> Event {
        let json = serde_json::to_value(envelope).unwrap_or_default();
        let frame = Event::default().event(json["type"].as_str().unwrap_or("error")).data(json.to_string());
        if envelope.seq <= self.0 {
            return frame;
        }
        self.0 = envelope.seq;
        frame.id(envelope.seq.to_string())
    }
}

/// Gives events a form that anybody may see.
pub trait ToPublic {
    /// Without what only the operator should see: arguments of calls, what they are needed for, costs, and the texts of
    /// errors.
    fn public(self) -> PublicEvents;
}

impl ToPublic for EventStream {
    fn public(self) -> PublicEvents {
        PublicEvents(self)
    }
}

/// Events that anybody may see: see [`ToPublic`].
pub struct PublicEvents(EventStream);

impl Stream for PublicEvents {
    type Item = Arc<Envelope>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.0.poll_next_unpin(cx)) {
                Some(envelope) if is_argument(&envelope.event) => {}
                event => return Poll::Ready(event.map(|envelope| public(&envelope))),
            }
        }
    }
}

/// A piece of a call's arguments. It has no number of its own, so nobody misses it.
fn is_argument(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::MessageUpdate { update: Update::ToolCall { .. }, .. })
}

fn public(envelope: &Envelope) -> Arc<Envelope> {
    let mut envelope = envelope.clone();
    match &mut envelope.event {
        AgentEvent::MessageEnd { message } => *message = public_message(message),
        AgentEvent::ToolExecutionStart { arguments, .. } => *arguments = Arc::default(),
        AgentEvent::ToolExecutionEnd { result, .. } => *result = public_message(result),
        AgentEvent::ExternalAction(action) => {
            let action = Arc::make_mut(action);
            (action.arguments, action.need) = (Arc::default(), None);
        }
        AgentEvent::ExternalActionEnd { decision, .. } => match &**decision {
            Decision::ApproveWith(_) => *decision = Arc::new(Decision::ApproveWith(Value::Null)),
            Decision::Answer(_) => *decision = Arc::new(Decision::Answer(Value::Null)),
            Decision::Result(output) => {
                let mut output = output.clone();
                output.details = None;
                *decision = Arc::new(Decision::Result(output));
            }
            _ => {}
        },
        AgentEvent::TurnEnd { message, tool_results, .. } => {
            *message = message.as_ref().map(public_message);
            *tool_results = tool_results.iter().map(public_message).collect();
        }
        AgentEvent::Compaction(done) => {
            let done = Arc::make_mut(done);
            done.error = done.error.as_ref().map(|_| "There is no summary.".into());
        }
        AgentEvent::AgentEnd(outcome) => {
            let outcome = Arc::make_mut(outcome);
            outcome.cost = 0.0;
            outcome.error = outcome.error.as_ref().map(|_| "The run failed.".into());
        }
        _ => {}
    }
    Arc::new(envelope)
}

fn public_message(message: &Arc<Message>) -> Arc<Message> {
    let mut body = message.body.clone();
    match &mut body {
        Body::Assistant(reply) => {
            for part in &mut reply.parts {
                if let Part::ToolCall(call) = part {
                    call.arguments = "{}".into();
                }
            }
        }
        Body::ToolResult(result) => {
            result.details = None;
            if result.is_error() {
                result.content = vec![Content::text("The tool failed.")];
            }
        }
        Body::User(_) | Body::Custom(_) => return message.clone(),
    }
    Arc::new(Message::new(message.id, body))
}

#[cfg(test)]
mod tests {
    use loopwright::testing::{Script, ScriptedModel};
    use loopwright::{GenericAgent, RunContext, ToolError, ToolOutput, tool_fn};
    use loopwright_patterns::PiPattern;

    use super::*;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Path {
        path: String,
    }

    #[tokio::test]
    async fn public_events_leave_out_arguments_costs_and_inner_errors() {
        let model = ScriptedModel::new([
            Script::calls([("c1", "look", serde_json::json!({ "path": "secret-argument" }))]),
            Script::text("Done."),
        ]);
        let look = tool_fn("look", "Looks.", |arguments: Path, _| async move {
            Err::<ToolOutput, _>(ToolError::failed(format!("secret-error at {}", arguments.path)))
        });
        let agent = GenericAgent::builder(model, PiPattern).tool(look).auto_all().build().unwrap();
        let (handle, _) = agent.run(RunContext::new()).await.unwrap();
        let mut public = handle.prompt_stream("Look").await.unwrap().public();
        let mut told = String::new();
        while let Some(envelope) = public.next().await {
            told.push_str(&serde_json::to_string(&envelope).unwrap());
        }
        assert!(told.contains("\"look\"") && told.contains("The tool failed.") && told.contains("agent_end"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }

    #[test]
    fn public_events_leave_out_what_is_handed_in_beside_the_text() {
        let mut output = ToolOutput::text("shown");
        output.details = Some(serde_json::json!("secret"));
        let (session_id, run_id) = ("s".into(), Default::default());
        let event =
            AgentEvent::ExternalActionEnd { call: "c".into(), decision: Arc::new(Decision::Result(output)), by: None };
        let told = public(&Envelope { seq: 1, session_id, run_id, parent: None, time: 0, event });
        let told = serde_json::to_string(&told).unwrap();
        assert!(told.contains("shown") && !told.contains("secret"), "{told}");
    }
}
