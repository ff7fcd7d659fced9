//! Estimates of the usage of requests, before they are sent.

use std::sync::Arc;

use crate::compaction::{tokens_of, tool_tokens};
use crate::log::turn::Estimate;
use crate::message::{Message, Usage};
use crate::model::{ChatRequest, ModelInfo};
use crate::session::Session;
use crate::tool::ToolList;

/// Expected tokens of a reply if nothing is known of it.
const UNKNOWN_OUTPUT_TOKENS: u64 = 1024;

/// The expected usage of a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needed {
    pub(crate) input: Estimate,
    pub(crate) output: Estimate,
}

impl Needed {
    /// Returns the input and the output together.
    pub(crate) fn all(&self) -> Estimate {
        let mut all = self.input;
        all.add(self.output);
        all
    }
}

/// Estimates the usage of a request.
pub(crate) fn estimate(session: &mut Session, model: &ModelInfo, request: &ChatRequest) -> Needed {
    let overhead = overhead(session, &request.tools, &request.system);
    let state = &session.journal.state;
    let usage = if Arc::ptr_eq(&request.messages, &state.context) {
        state.size.input(overhead)
    } else {
        Usage::new(tokens_of_all(&request.messages).saturating_add(overhead), 0)
    };
    needed(session, model, &usage, request.max_tokens)
}

/// Estimates the usage of an answer at a limit after one more turn of the conversation's mean
/// length, with an instruction of this many bytes. Nothing is expected to be read from the cache,
/// since providers have another one for requests that may call no tool.
pub(crate) fn estimate_of_answer(session: &Session, instruction: usize) -> Estimate {
    let Session { journal, config, compaction, .. } = session;
    let tools = compaction.tool_tokens.iter().flatten().map(|(_, tokens)| *tokens).max();
    let overhead = tools.unwrap_or_default() + tokens_of(config.system.len());
    let now = journal.state.size.tokens(overhead);
    let growth = now / u64::from(journal.state.total().turns.max(1));
    let usage = Usage::new(now + growth + tokens_of(instruction), 0);
    needed(session, config.model.info(), &usage, config.max_tokens).all()
}

/// Estimates the usage of the request for an answer at a limit, whose messages begin with the
/// conversation.
pub(crate) fn estimate_last(
    session: &mut Session,
    model: &ModelInfo,
    request: &ChatRequest,
) -> Needed {
    let overhead = overhead(session, &request.tools, &request.system);
    let state = &session.journal.state;
    let more = request.messages.get(state.context.len()..).unwrap_or_default();
    let tokens = state.size.tokens(overhead).saturating_add(tokens_of_all(more));
    needed(session, model, &Usage::new(tokens, 0), request.max_tokens)
}

fn tokens_of_all(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| message.tokens()).fold(0, u64::saturating_add)
}

fn needed(session: &Session, model: &ModelInfo, input: &Usage, max_tokens: Option<u32>) -> Needed {
    let mean = session.journal.state.mean_output().or(session.tree.mean_output);
    Needed {
        input: Estimate::new(input.total(), model.cost(input)),
        output: expected_output(model, max_tokens, mean),
    }
}

/// Estimates the output of a request: its maximum, or else the mean of earlier replies.
fn expected_output(model: &ModelInfo, max_tokens: Option<u32>, mean: Option<u64>) -> Estimate {
    let tokens = max_tokens.map(u64::from).or(mean).unwrap_or(UNKNOWN_OUTPUT_TOKENS);
    let tokens = tokens.min(model.max_output.unwrap_or(u64::MAX));
    Estimate::new(tokens, model.cost(&Usage::new(0, tokens)))
}

/// Returns the estimated tokens of a request besides its messages. The tools are counted again only
/// if the list is another one.
pub(crate) fn overhead(session: &mut Session, tools: &Arc<ToolList>, system: &str) -> u64 {
    let is_own = Arc::ptr_eq(tools, session.executor.tools.list());
    let [own, other] = &mut session.compaction.tool_tokens;
    let slot = if is_own { own } else { other };
    let tool_tokens = match slot {
        Some((counted, tokens)) if Arc::ptr_eq(counted, tools) => *tokens,
        _ => {
            let tokens = tools.iter().map(|tool| tool_tokens(tool)).sum::<u64>();
            *slot = Some((tools.clone(), tokens));
            tokens
        }
    };
    tool_tokens + tokens_of(system.len())
}
