//! Pairing of calls and results: strict servers refuse a call without a result, and a result
//! without a call.
//!
//! The engine keeps them paired. Hooks that prune or reorder a conversation may not, nor may
//! imported conversations.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{Content, MessageId, ResultStatus, ToolCall, ToolResult};

/// The result of a call without a result.
const NO_RESULT: &str = "No result of this call was kept.";

/// Returns the conversation with exactly one result for each call, directly after its message and
/// in order. Removes results without a call, and adds an error result to calls without one. Most
/// conversations are unchanged.
pub(crate) fn pair_tool_results(messages: &[Arc<Message>]) -> Cow<'_, [Arc<Message>]> {
    if has_paired_results(messages) {
        return Cow::Borrowed(messages);
    }
    let mut pairs = Vec::with_capacity(messages.len());
    let mut rest = messages.iter().filter(|message| message.is_for_model()).peekable();
    while let Some(message) = rest.next() {
        if message.as_tool_result().is_some() {
            continue; // results of the previous calls have already been taken
        }
        pairs.push(message.clone());
        let Some(reply) = message.as_assistant() else {
            continue;
        };
        let mut results = Vec::new();
        while let Some(result) = rest.next_if(|message| message.as_tool_result().is_some()) {
            results.push(result);
        }
        for call in reply.calls() {
            let own = results
                .iter()
                .position(|m| m.as_tool_result().is_some_and(|result| result.call == call.id));
            pairs.push(own.map_or_else(|| missing(call), |at| results.remove(at).clone()));
        }
    }
    Cow::Owned(pairs)
}

fn has_paired_results(messages: &[Arc<Message>]) -> bool {
    let mut rest = messages.iter().filter(|message| message.is_for_model());
    while let Some(message) = rest.next() {
        if message.as_tool_result().is_some() {
            return false;
        }
        for call in message.as_assistant().into_iter().flat_map(|reply| reply.calls()) {
            let result = rest.next().and_then(|message| message.as_tool_result());
            if result.is_none_or(|result| result.call != call.id) {
                return false;
            }
        }
    }
    true
}

fn missing(call: &ToolCall) -> Arc<Message> {
    let result = ToolResult::new(
        call.id.clone(),
        call.name.clone(),
        ResultStatus::OutcomeUnknown,
        vec![Content::text(NO_RESULT)],
    );
    Arc::new(Message::new(MessageId::default(), result))
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{AssistantMessage, ContentPart, StopReason, UserMessage};
    use loopwright_core::testing::check_transcript;

    use super::*;

    fn reply(ids: &[&str], stop: StopReason) -> Arc<Message> {
        let call = |id: &&str| ContentPart::ToolCall(ToolCall::new(*id, "f", "{}"));
        let parts = ids.iter().map(call).collect();
        Arc::new(Message::new(MessageId(1), AssistantMessage::new(parts).stop(stop)))
    }

    fn result(id: &str) -> Arc<Message> {
        let call = ToolCall::new(id, "f", "{}");
        missing(&call)
    }

    fn user() -> Arc<Message> {
        Arc::new(Message::new(MessageId(1), UserMessage::from("hi")))
    }

    #[test]
    fn a_conversation_of_pairs_stays_as_it_is() {
        let good =
            [user(), reply(&["a", "b"], StopReason::ToolCalls), result("a"), result("b"), user()];
        assert!(matches!(pair_tool_results(&good), Cow::Borrowed(_)));
    }

    #[test]
    fn every_other_one_becomes_one() {
        let calls = || reply(&["a", "b"], StopReason::ToolCalls);
        for broken in [
            vec![result("a"), user()],
            vec![user(), calls(), result("b"), result("a")],
            vec![user(), calls(), result("b"), user(), result("a")],
            vec![user(), calls(), result("x"), result("a"), result("a")],
            vec![user(), calls()],
            vec![user(), reply(&["a"], StopReason::Aborted), result("a")],
        ] {
            let pairs = pair_tool_results(&broken);
            check_transcript(&pairs).unwrap();
            let texts = |list: &[Arc<Message>]| {
                list.iter()
                    .filter(|m| matches!(m.body, loopwright_core::message::MessageKind::User(_)))
                    .count()
            };
            assert_eq!(texts(&pairs), texts(&broken));
        }
    }
}
