//! Estimates of what a request will use, before it is sent.

use std::sync::Arc;

use crate::log::compaction::{tokens_of, tool_tokens};
use crate::log::turn::Estimate;
use crate::message::Usage;
use crate::model::{ChatModel, ChatRequest};
use crate::session::Session;
use crate::tool::ToolList;

/// Estimates what the input of a request will use.
pub(crate) fn estimate(
    session: &mut Session,
    model: &dyn ChatModel,
    request: &ChatRequest,
) -> Estimate {
    let overhead = overhead(session, &request.tools, &request.system);
    let fold = &session.journal.fold;
    let usage = if Arc::ptr_eq(&request.messages, &fold.context) {
        fold.size.input(overhead)
    } else {
        let messages = request.messages.iter().map(|message| message.tokens());
        Usage::new(messages.fold(overhead, u64::saturating_add), 0)
    };
    Estimate::new(usage.total(), model.info().cost(&usage))
}

/// Returns the estimated tokens that a request has besides messages. The tools are counted again
/// only for another list.
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
