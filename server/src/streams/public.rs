//! A session's events for people who may read the conversation, but not the data of the machine.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};
use loopwright_core::compaction::CompactionCause;
use loopwright_core::event::{Decision, Envelope, Provided, RunCause};
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, CustomMessage, DetachedMessage, MessageKind, ToolCall,
    Usage, UserMessage,
};
use loopwright_core::model::Update;
use loopwright_core::{AgentEvent, EventStream, Message};
use serde_json::Value;

/// Conversion of events to a form that anybody may see.
pub trait ToPublic {
    /// Returns the events for people without rights on the agent's machine. They show:
    ///
    /// - messages of the user and the model, also detached ones that are shown,
    /// - which tools run, and how calls and runs end,
    /// - which actions are pending, and that they were resolved.
    ///
    /// They leave out:
    ///
    /// - the thinking of the model (an empty part of the message remains),
    /// - arguments of calls and their requests for approval or input,
    /// - output and progress of tools,
    /// - costs (tokens and money),
    /// - texts and kinds of errors,
    /// - who resolves an action, and with which values,
    /// - texts of compactions,
    /// - the application's data (of custom events and messages the kind remains),
    /// - all other kinds of events.
    ///
    /// They do not leave out what the model writes about any of these: an agent must not know what
    /// its users must not know. Event numbers stay the same.
    fn public(self) -> PublicEvents;
}

impl ToPublic for EventStream {
    fn public(self) -> PublicEvents {
        PublicEvents(self)
    }
}

/// A stream of the events that anybody may see; see [`ToPublic::public`].
pub struct PublicEvents(EventStream);

impl Stream for PublicEvents {
    type Item = Arc<Envelope>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(envelope) = ready!(self.0.poll_next_unpin(cx)) else {
                return Poll::Ready(None);
            };
            if let Some(event) = public(&envelope) {
                return Poll::Ready(Some(event));
            }
        }
    }
}

/// Returns the public form of an event, or `None` if it has none. Only the variants in the `match`
/// are public.
fn public(envelope: &Envelope) -> Option<Arc<Envelope>> {
    let mut envelope = envelope.clone();
    match &mut envelope.event {
        AgentEvent::AgentStart { cause, trace } => {
            *trace = None;
            match cause {
                RunCause::UserRequest(_) | RunCause::ActionResult(_) | RunCause::Continue(_) => {}
                RunCause::Steer | RunCause::Abort => {}
                RunCause::Timer(key) | RunCause::Signal(key) => *key = "".into(),
                RunCause::Compact { instructions } => *instructions = None,
                _ => return None,
            }
        }
        AgentEvent::TurnStart { .. } | AgentEvent::MessageStart { .. } | AgentEvent::Reset => {}
        AgentEvent::QueueUpdate { .. } => {} // messages of the user
        AgentEvent::MessageUpdate { update: Update::Text { .. }, .. }
        | AgentEvent::MessageUpdate {
            update: Update::ToolCallStart { .. } | Update::Withdrawn,
            ..
        }
        | AgentEvent::DetachedUpdate {
            update: Update::Text { .. } | Update::ToolCallStart { .. } | Update::Withdrawn,
            ..
        } => {}
        AgentEvent::MessageEnd { message } => *message = public_message(message),
        AgentEvent::ToolExecutionStart { arguments, .. } => *arguments = Arc::default(),
        AgentEvent::ToolExecutionEnd { result, .. } => *result = public_message(result),
        AgentEvent::ExternalAction(action) => {
            let action = Arc::make_mut(action);
            action.arguments = Arc::default();
            action.digest = "".into();
            action.request = None;
        }
        AgentEvent::ExternalActionEnd { decision, by, .. } => {
            *by = None;
            *decision = Arc::new(match &**decision {
                Decision::Approve => Decision::Approve,
                Decision::ApproveWith(_) => Decision::ApproveWith(Value::Null),
                Decision::Deny(_) => Decision::Deny(String::new()),
                Decision::Provide(Provided::Result(_)) => {
                    Decision::Provide(Provided::Result(Default::default()))
                }
                _ => Decision::Provide(Provided::Input(Value::Null)),
            });
        }
        AgentEvent::TurnEnd { message, tool_results, .. } => {
            *message = message.as_ref().map(public_message);
            *tool_results = tool_results.iter().map(public_message).collect();
        }
        AgentEvent::Custom { data, .. } => *data = Arc::default(),
        AgentEvent::Compaction(done) => {
            let done = Arc::make_mut(done);
            done.error = done.error.as_ref().map(|_| "There is no summary.".into());
            done.tokens_before = 0;
            done.tokens_after = 0;
            match &mut done.why {
                CompactionCause::Threshold | CompactionCause::Overflow => {}
                CompactionCause::Asked { instructions } => *instructions = None,
                _ => return None,
            }
            let content = vec![Content::text("The earlier messages.")];
            done.message = Arc::new(Message::new(done.message.id, UserMessage::new(content)));
        }
        AgentEvent::AgentEnd(outcome) => {
            let outcome = Arc::make_mut(outcome);
            outcome.cost = 0.0;
            outcome.usage = Usage::default();
            outcome.model_error = None;
            outcome.error = outcome.error.as_ref().map(|_| "The run failed.".into());
        }
        _ => return None, // few of these have numbers
    }
    Some(Arc::new(envelope))
}

fn public_message(message: &Arc<Message>) -> Arc<Message> {
    let kind: MessageKind = match &message.body {
        MessageKind::User(_) => return message.clone(),
        MessageKind::Assistant(reply) => public_reply(reply).into(),
        MessageKind::Detached(shown) => {
            DetachedMessage::new(shown.speaker.clone(), public_reply(&shown.reply)).into()
        }
        MessageKind::ToolResult(result) => {
            let text = if result.is_error() { "The tool failed." } else { "The tool is done." };
            let mut public = result.clone();
            public.details = None;
            public.content = vec![Content::text(text)];
            public.into()
        }
        MessageKind::Custom(custom) => CustomMessage::new(custom.kind.clone(), Value::Null).into(),
        _ => CustomMessage::new("unknown", Value::Null).into(),
    };
    Arc::new(Message::new(message.id, kind))
}

fn public_reply(reply: &AssistantMessage) -> AssistantMessage {
    let parts = reply.parts.iter().map(public_part).collect();
    AssistantMessage::new(parts).stop(reply.stop).model(reply.model.clone())
}

/// Returns the public form of a part. The number of parts stays the same, since deltas refer to
/// them by index. Signatures may contain thinking.
fn public_part(part: &ContentPart) -> ContentPart {
    match part {
        ContentPart::Text { text, .. } => ContentPart::Text { text: text.clone(), signature: None },
        ContentPart::ToolCall(call) => {
            ContentPart::ToolCall(ToolCall::new(call.id.clone(), call.name.clone(), "{}"))
        }
        _ => ContentPart::Thinking { text: String::new(), signature: None },
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::model::{ModelErrorKind, ModelInfo, Prices};
    use loopwright_core::testing::{Script, ScriptedModel};
    use loopwright_core::tool::Effect;
    use loopwright_core::{GenericAgent, RunContext, ToolError, ToolOutput, tool_fn};
    use loopwright_memory::SummaryCompaction;
    use loopwright_patterns::PiPattern;
    use serde_json::json;

    use super::*;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Path {
        path: String,
    }

    /// C113: Public events contain the conversation. They contain neither thinking, nor arguments
    /// and output of tools, nor costs, errors, texts of decisions and details of compactions.
    #[tokio::test]
    async fn public_events_leave_out_what_is_on_the_machine_costs_and_inner_errors() {
        let calls =
            |id: &str, tool: &str| Script::new().call(id, tool, r#"{ "path": "secret-argument" }"#);
        let usage = Usage::new(7_654_321, 7_654_321);
        let model = ScriptedModel::new([
            calls("c1", "read").usage(usage),
            calls("c2", "fail"),
            calls("c3", "change"),
            Script::new().think("secret-thought", Some("secret-signature")).say("All is done."),
            Script::text("More is done."),
            Script::text("secret-summary"),
            Script::error(ModelErrorKind::Auth, "secret-model-error"),
        ]);
        let prices = Prices::new(1.0, 1.0);
        let read = tool_fn("read", "Reads.", |arguments: Path, cx| async move {
            cx.update("secret-update").await;
            cx.progress(1, None, "secret-progress").await;
            Ok::<_, ToolError>(
                ToolOutput::text(format!("secret-output {}", arguments.path))
                    .details(json!("secret-details")),
            )
        });
        let fail = tool_fn("fail", "Fails.", |arguments: Path, _| async move {
            Err::<ToolOutput, _>(ToolError::failed(format!("secret-error at {}", arguments.path)))
        });
        let change = tool_fn("change", "Changes.", |_: Path, _| async {
            Ok::<_, ToolError>("secret-output")
        });
        let agent = GenericAgent::builder(
            model.info(ModelInfo::new("test/priced").with_prices(prices)),
            PiPattern,
        )
        .tool(read.effect(Effect::ReadOnly))
        .tool(fail.effect(Effect::ReadOnly))
        .tool(change)
        .compaction(SummaryCompaction::new().keep_turns(1))
        .build()
        .unwrap();
        let (handle, events) = agent.run(RunContext::new()).await.unwrap();
        let asked = handle.prompt("Read").await.unwrap();
        assert!(asked.cost > 1.0);
        let action = &handle.pending().await.unwrap()[0];
        handle.deny(action, "secret-reason").await.unwrap();
        handle.wait_for_idle().await;
        handle.prompt("And more").await.unwrap();
        assert!(handle.compact(Some("secret-instructions")).await.unwrap()[0].summarised);
        handle.prompt("And fail").await.unwrap();
        drop(handle);
        let public: Vec<Value> =
            events.public().map(|event| serde_json::to_value(&event).unwrap()).collect().await;
        let text = Value::from(public.clone()).to_string();
        for word in [
            "read",
            "The tool is done.",
            "The tool failed.",
            "deny",
            "All is done.",
            "compaction",
            "The run failed.",
        ] {
            assert!(text.contains(word), "{word} is missing: {text}");
        }
        for word in ["secret", "7654321", "auth", "tool_execution_update", action.digest.as_ref()] {
            assert!(!text.contains(word), "{word} is public: {text}");
        }
        let ends = public.iter().filter(|event| event["type"] == "agent_end");
        assert_eq!(ends.map(|end| end["cost"].as_f64().unwrap()).collect::<Vec<_>>(), [0.0; 5]);
    }

    #[test]
    fn public_events_leave_out_what_is_handed_in_and_what_is_the_applications_own() {
        let custom = CustomMessage::new("note", json!("secret"));
        let events = [
            AgentEvent::ExternalActionEnd {
                call: "c".into(),
                decision: Arc::new(Decision::Provide(Provided::Result(
                    ToolOutput::text("secret").details(json!("secret")),
                ))),
                by: Some("secret".into()),
            },
            AgentEvent::Custom { kind: "note".into(), data: Arc::new(json!("secret")) },
            AgentEvent::MessageEnd { message: Arc::new(Message::new(Default::default(), custom)) },
        ];
        for event in events {
            let event = public(&Envelope::new(1, "s", Default::default(), 0, event)).unwrap();
            let json = serde_json::to_string(&event).unwrap();
            assert!(!json.contains("secret") && json.contains("\"seq\":1"), "{json}");
        }
        let shown = |update| {
            let speaker = "critic".into();
            let event =
                AgentEvent::DetachedUpdate { message_id: Default::default(), speaker, update };
            public(&Envelope::new(1, "s", Default::default(), 0, event)).is_some()
        };
        assert!(shown(Update::Text { block: 0, delta: "Too long.".into() }));
        assert!(!shown(Update::Thinking { block: 0, delta: "secret".into() }));
        let thought = ContentPart::Thinking { text: "secret".into(), signature: None };
        let reply = AssistantMessage::new(vec![
            thought,
            ContentPart::Text { text: "Short.".into(), signature: None },
        ]);
        let message = Message::new(Default::default(), DetachedMessage::new("critic", reply));
        let event = AgentEvent::MessageEnd { message: Arc::new(message) };
        let event = public(&Envelope::new(1, "s", Default::default(), 0, event)).unwrap();
        let json = serde_json::to_string(&event).unwrap();
        assert!(json.contains("critic") && json.contains("Short.") && !json.contains("secret"));
    }
}
