//! Calls that are repeated without a new result; see [`LoopGuard`].

use crate::error::StepError;
use crate::excerpt;
use crate::limits::{LimitReached, LoopGuard};
use crate::log::calls::CALLER;
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::message::{AssistantMessage, MessageKind, ToolCall, ToolResult, UserMessage};
use crate::model::ToolChoice;
use crate::session::Session;
use crate::session::request::ask::Ask;

/// Maximum length of a tool's name in a note. Models also call tools that do not exist.
const MAX_NAME_CHARS: usize = 64;

/// Adds the note for the model if the calls before this request were repeated often enough. Fails
/// at the limit.
pub(crate) async fn check(session: &mut Session, ask: &Ask) -> Result<(), StepError> {
    let Some(guard) = session.config.limits.loop_guard.as_ref() else { return Ok(()) };
    if ask.tool_choice == ToolChoice::None {
        return Ok(());
    }
    let Some(Repetition { times, calls, is_whole }) = at_end(&session.journal.state, guard) else {
        return Ok(());
    };
    let end_at = guard.end_at.max(2);
    if times >= end_at {
        return Err(StepError::Limit(LimitReached::repeated_calls(&calls, times)));
    }
    let state = &session.journal.state;
    let last = state.messages().rev().find(|message| message.is_for_model());
    let is_result = last.is_some_and(|message| message.as_tool_result().is_some());
    if times == guard.note_at && is_whole && is_result {
        let note = format!(
            "[The same calls had the same results {times} times: {calls}. They will not help. Try \
             something else, or say what is missing. The run ends when they have been made \
             {end_at} times.]"
        );
        let message = session.journal.message(UserMessage::from(note));
        session.journal.commit(LogEntry::Remembered { message }).await?;
    }
    Ok(())
}

/// Calls that were repeated at the end of the conversation.
struct Repetition {
    times: u32,
    /// The names of the tools.
    calls: String,
    /// `false` if the last of two alternating replies is missing.
    is_whole: bool,
}

/// Returns the repetition with which the conversation ends.
fn at_end(state: &SessionState, guard: &LoopGuard) -> Option<Repetition> {
    let batches = last_batches(state, guard);
    let run = |period: usize| {
        let pairs = batches.iter().zip(batches.iter().skip(period));
        period + pairs.take_while(|(later, earlier)| later.repeats(earlier)).count()
    };
    let (period, run) = [1, 2]
        .map(|period| (period, run(period)))
        .into_iter()
        .find(|(period, run)| run > period)?;
    let cycle: Vec<String> = batches.iter().take(period).rev().map(Batch::names).collect();
    Some(Repetition {
        times: u32::try_from(run / period).unwrap_or(u32::MAX),
        calls: cycle.join(", then "),
        is_whole: run % period == 0,
    })
}

/// The calls of a reply, and their results from the last to the first.
struct Batch<'a> {
    reply: &'a AssistantMessage,
    results: Vec<&'a ToolResult>,
}

/// Returns the last replies of the model whose calls count, the latest first: as many as two
/// alternating ones need to reach the limit.
fn last_batches<'a>(state: &'a SessionState, guard: &LoopGuard) -> Vec<Batch<'a>> {
    let most = usize::try_from(guard.end_at.max(2)).unwrap_or(usize::MAX).saturating_mul(2);
    let (mut batches, mut results) = (Vec::new(), Vec::new());
    for message in state.messages().rev().take_while(|message| message.id > state.fresh_after) {
        match &message.body {
            MessageKind::ToolResult(result) => results.push(result),
            MessageKind::Assistant(reply) => {
                let batch = Batch { reply, results: std::mem::take(&mut results) };
                if message.is_for_model() {
                    if !batch.counts(guard) {
                        break;
                    }
                    batches.push(batch);
                }
            }
            MessageKind::User(_) if state.of_user.contains(&message.id) => break,
            _ => {} // a message of the pattern, the note, or one that no model sees
        }
        if batches.len() == most {
            break;
        }
    }
    batches
}

impl Batch<'_> {
    fn counts(&self, guard: &LoopGuard) -> bool {
        let is_counted = |result: &&ToolResult| {
            result.seconds == 0 && guard.polling.iter().all(|tool| **tool != *result.name)
        };
        *self.reply.model != *CALLER
            && !self.results.is_empty()
            && self.results.iter().all(is_counted)
    }

    fn repeats(&self, earlier: &Batch<'_>) -> bool {
        let (results, calls) = (self.results.iter().zip(&earlier.results), self.reply.calls());
        self.results.len() == earlier.results.len()
            && results.into_iter().all(|(a, b)| (a.status, &a.content) == (b.status, &b.content))
            && calls.zip(earlier.reply.calls()).all(|(a, b)| is_same_call(a, b))
    }

    /// Returns the names of the tools, each once.
    fn names(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for call in self.reply.calls() {
            let name = format!("`{}`", excerpt::chars(&call.name, MAX_NAME_CHARS));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    }
}

fn is_same_call(a: &ToolCall, b: &ToolCall) -> bool {
    a.name == b.name
        && (a.arguments == b.arguments
            || a.parse_arguments().is_some_and(|value| Some(value) == b.parse_arguments()))
}
