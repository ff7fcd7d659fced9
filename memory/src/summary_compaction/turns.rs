//! The turns of a conversation.

use std::ops::Range;

use loopwright_core::Message;
use loopwright_core::compaction::CompactionContext;
use loopwright_core::message::MessageKind;

/// Returns the turns after the user's first request.
///
/// A turn is a reply with the results of its calls, and the message that it answers. The message
/// that replaced older turns is a separate turn.
pub(super) fn turns(context: &CompactionContext<'_>) -> Vec<Range<usize>> {
    let messages = context.messages;
    let is_user = |m: &Message| matches!(m.body, MessageKind::User(_));
    let is_stand_in = |m: &Message| context.last.is_some_and(|(id, _)| id == m.id);
    let first = usize::from(messages.first().is_some_and(|m| is_user(m) && !is_stand_in(m)));
    let starts_turn = |at: &usize| {
        let before = at.checked_sub(1).filter(|before| *before >= first);
        let continues = before.is_some_and(|before| {
            let before = &messages[before];
            is_user(before) && !is_stand_in(before)
        });
        messages[*at].as_tool_result().is_none() && !continues
    };
    let starts: Vec<usize> = (first..messages.len()).filter(starts_turn).collect();
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}
