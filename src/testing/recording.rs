//! [`Recording`]: replies as a function of the request.

use std::collections::HashSet;
use std::sync::Arc;

use super::request_text::{options_text, tools_text};
use super::script::Script;
use super::trace::line;
use crate::message::{CallId, Message};
use crate::model::ChatRequest;

/// The requests of a completed session, with their replies.
///
/// Requests are compared without the ids of messages. A request that was made several times gets
/// its replies in order, and then the last reply again.
#[derive(Clone, Default)]
pub(super) struct Recording {
    exchanges: Vec<Exchange>,
    /// The calls whose results are not compared.
    ignored_results: HashSet<CallId>,
    /// The number of requests so far.
    taken: usize,
    /// The requests that the recording lacked, with their numbers from zero.
    missing: Vec<(usize, String)>,
}

#[derive(Clone)]
struct Exchange {
    request: ChatRequest,
    reply: Script,
    is_used: bool,
}

impl Recording {
    pub(super) fn new(exchanges: impl IntoIterator<Item = (ChatRequest, Script)>) -> Self {
        let exchange = |(request, reply)| Exchange { request, reply, is_used: false };
        let exchanges = exchanges.into_iter().map(exchange).collect();
        Recording { exchanges, ..Recording::default() }
    }

    /// Marks the replies to the first requests as used or not.
    pub(super) fn skip(mut self, used: &[bool]) -> Self {
        let exchanges = self.exchanges.iter_mut().zip(used);
        exchanges.for_each(|(exchange, is_used)| exchange.is_used = *is_used);
        self
    }

    /// Excludes the results of these calls from the comparison of requests.
    pub(super) fn ignore_results(mut self, calls: &HashSet<CallId>) -> Self {
        self.ignored_results.clone_from(calls);
        self
    }

    /// Returns the reply to a request, or `None` if the recording lacks the request.
    pub(super) fn reply(&mut self, request: &ChatRequest) -> Option<Script> {
        let ignored = &self.ignored_results;
        self.taken += 1;
        let mut same: Vec<&mut Exchange> = self
            .exchanges
            .iter_mut()
            .filter(|exchange| is_same(&exchange.request, request, ignored))
            .collect();
        let next = same.iter().position(|exchange| !exchange.is_used);
        let last = same.len().checked_sub(1);
        let Some(exchange) = next.or(last).and_then(|at| same.get_mut(at)) else {
            self.missing.push((self.taken - 1, describe(request)));
            return None;
        };
        exchange.is_used = true;
        Some(exchange.reply.clone())
    }

    /// Returns the requests that the recording lacked, with their numbers from zero.
    pub(super) fn missing(&self) -> &[(usize, String)] {
        &self.missing
    }
}

fn is_same(a: &ChatRequest, b: &ChatRequest, ignored: &HashSet<CallId>) -> bool {
    a.system == b.system
        && a.messages.len() == b.messages.len()
        && a.messages.iter().zip(b.messages.iter()).all(|(a, b)| is_same_message(a, b, ignored))
        && tools_text(a) == tools_text(b)
        && options_text(a) == options_text(b)
}

/// Compares two messages without their ids. The results of `ignored` calls always count as equal.
pub(super) fn is_same_message(
    a: &Arc<Message>,
    b: &Arc<Message>,
    ignored: &HashSet<CallId>,
) -> bool {
    match (a.as_tool_result(), b.as_tool_result()) {
        (Some(a), Some(b)) if a.call == b.call && ignored.contains(&a.call) => true,
        _ => a.body == b.body,
    }
}

fn describe(request: &ChatRequest) -> String {
    let messages: Vec<String> = request.messages.iter().map(|message| line(message)).collect();
    messages.join(" | ")
}
