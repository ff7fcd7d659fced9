//! [`Progress`]: the position up to which an agent has followed the log. Each entry that the agent
//! appends is compared with the next entry of the log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::difference::{Difference, summary};
use super::epochs::{Epoch, is_silent};
use crate::event::outcome::RunStatus;
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::message::{CallId, Message, MessageId};
use crate::model::ChatRequest;
use crate::session::handle::AgentHandle;
use crate::testing::log_text::comparable;

/// The baseline for the comparison of requests.
#[derive(Default)]
pub(super) enum Baseline {
    /// The conversation in the log at that time.
    #[default]
    Log,
    /// No baseline: requests are not compared.
    Unchecked,
    /// The requests of another agent.
    Requests(Vec<SentRequest>),
}

/// A request, with the model to which it was sent.
#[derive(Clone)]
pub(super) struct SentRequest {
    pub(super) model: Arc<str>,
    pub(super) request: ChatRequest,
}

/// A detached request in the log.
pub(super) enum DetachedRequest {
    /// The position of its reply.
    Replied(usize),
    /// No reply: the process died, or the run was aborted, before the reply came.
    CutOff,
}

#[derive(Default)]
pub(super) struct Progress {
    pub(super) epoch: usize,
    /// Position of the next entry of the log.
    pub(super) at: usize,
    /// The state after the entries before `at`.
    pub(super) state: SessionState,
    pub(super) handle: Option<AgentHandle>,
    /// A token that is cancelled when the epoch is over.
    pub(super) cancellation: CancellationToken,
    /// Number of requests before `at`.
    pub(super) requests: usize,
    /// Position of a request that was announced and has not reached its model.
    pub(super) announced_request: Option<usize>,
    /// `true` until a reply has been streamed up to its end or its cut.
    pub(super) is_streaming: bool,
    /// The positions of the requested detached replies.
    pub(super) requested_replies: HashSet<usize>,
    /// Number of detached requests that were sent in this epoch, without requests that an abort cut
    /// off.
    pub(super) sent_detached: usize,
    /// `true` if the next detached reply has been streamed.
    pub(super) is_detached_streamed: bool,
    /// The calls that were announced and have not reached their tools.
    pub(super) starting_calls: HashSet<CallId>,
    /// The position of each call's start.
    pub(super) call_starts: HashMap<CallId, usize>,
    /// `true` if the agent has continued beyond the end of the log.
    pub(super) is_past_end: bool,
    /// The positions of the sent inputs.
    pub(super) sent_inputs: HashSet<usize>,
    /// Number of compactions requested within runs of this epoch.
    pub(super) requested_compactions: usize,
    /// `true` if the agent uses the policy that repeats the logged compactions.
    pub(super) compacts_as_logged: bool,
    /// The log's message id for each message id of this epoch.
    pub(super) logged_ids: HashMap<MessageId, MessageId>,
    pub(super) baseline: Baseline,
    pub(super) sent_requests: Vec<SentRequest>,
    /// The first differing entry after which the log could still be followed.
    pub(super) first_difference: Option<Difference>,
    /// The reason why the log is no longer followed.
    pub(super) divergence: Option<Difference>,
}

impl Progress {
    /// Starts an epoch with the entries from `start` to `end`.
    pub(super) fn enter_epoch(&mut self, epoch: usize, log: &[LogEntry], start: usize, end: usize) {
        self.epoch = epoch;
        self.cancellation = CancellationToken::new();
        self.skip_to(log, start);
        self.announced_request = None;
        self.is_streaming = false;
        self.is_detached_streamed = false;
        self.is_past_end = false;
        self.requested_compactions = 0;
        self.logged_ids.clear();
        self.requested_replies.clear();
        self.sent_detached = 0;
        self.starting_calls.clear();
        self.skip_silent(log, end);
    }

    /// Moves to the position `to`.
    fn skip_to(&mut self, log: &[LogEntry], to: usize) {
        log[self.at..to].iter().for_each(|entry| self.state.apply(entry, &mut |_| {}));
        self.at = to;
    }

    fn skip_silent(&mut self, log: &[LogEntry], end: usize) {
        let next = (self.at..end).find(|at| !is_silent(&log[*at])).unwrap_or(end);
        self.skip_to(log, next.max(self.at));
    }

    /// Returns the next detached request in the log, or `None` if none was sent there. `sent` are
    /// the requests of the epoch. Older logs lack them; there, the next reply determines the
    /// request.
    pub(super) fn next_detached(
        &mut self,
        log: &[LogEntry],
        end: usize,
        sent: &[MessageId],
    ) -> Option<DetachedRequest> {
        use LogEntry::{RequestStarted, RunEnded};
        let group = (self.at..end)
            .take_while(|at| !matches!(log[*at], RequestStarted { .. } | RunEnded { .. }));
        let replies = group.filter_map(|at| match &log[at] {
            LogEntry::Detached { message, .. } => Some((message.id, at)),
            _ => None,
        });
        let mut replies = replies.filter(|(_, at)| !self.requested_replies.contains(at));
        let found = match sent.get(self.sent_detached) {
            None => replies.min(),
            Some(id) if !has_reply(&log[..end], *id) => {
                self.sent_detached += 1;
                return Some(DetachedRequest::CutOff);
            }
            Some(id) => replies.find(|(reply, _)| reply == id),
        };
        match found {
            Some((_, at)) => {
                self.requested_replies.insert(at);
                self.sent_detached += 1;
                Some(DetachedRequest::Replied(at))
            }
            None => self.is_aborted_next(log, end).then_some(DetachedRequest::CutOff),
        }
    }

    /// Returns whether an abort ends the run before another request of the conversation.
    fn is_aborted_next(&self, log: &[LogEntry], end: usize) -> bool {
        use LogEntry::{RequestStarted, RunEnded};
        let is_end = |entry: &&LogEntry| matches!(entry, RequestStarted { .. } | RunEnded { .. });
        let next = log[self.at.min(end)..end].iter().find(is_end);
        matches!(next, Some(RunEnded { end: RunStatus::Aborted, .. }))
    }

    /// Stops following the log. The first difference is reported.
    pub(super) fn diverge(&mut self, difference: Difference) {
        self.divergence.get_or_insert(difference);
        self.cancellation.cancel();
    }

    /// Compares an entry that the agent has appended with the log. Entries that only a pattern
    /// appends (state, messages, events) may differ without a divergence. All others must come in
    /// the order of the log.
    pub(super) fn compare(&mut self, new: &LogEntry, log: &[LogEntry], epoch: &Epoch) {
        let at_end = self.at >= epoch.end;
        if is_silent(new) || self.divergence.is_some() {
            return;
        }
        // A log that ends within a run, or before a run that starts without an input, does not tell
        // what follows.
        self.is_past_end |=
            at_end && (epoch.is_cut_off || matches!(new, LogEntry::RunStarted { .. }));
        if self.is_past_end {
            return;
        }
        let (new_message, new) = (message(new), &self.with_logged_ids(new));
        let key = key(new);
        let next = match key {
            None => self.at,
            Some(_) => {
                (self.at..epoch.end).find(|at| self::key(&log[*at]).is_some()).unwrap_or(epoch.end)
            }
        };
        let old = log.get(next).filter(|_| next < epoch.end);
        if old.is_none_or(|old| comparable(old) != comparable(new)) || next > self.at {
            let differing = log.get(self.at).filter(|_| !at_end);
            let difference = Difference::of_entry(self.at, differing, new);
            self.first_difference.get_or_insert(difference);
        }
        match old.filter(|old| self::key(old) == key) {
            Some(old) => {
                if let (Some(old), Some(new)) = (message(old), new_message) {
                    self.logged_ids.insert(new.id, old.id);
                }
                self.skip_to(log, next + 1);
                self.update(next, old, new);
                self.skip_silent(log, epoch.end);
            }
            None if key.is_none() => {}
            None => {
                let difference = self.divergence_at(next, old, new);
                self.diverge(difference);
            }
        }
    }

    /// Builds the difference for `new`, appended where the log has `old` at position `at`.
    fn divergence_at(&mut self, at: usize, old: Option<&LogEntry>, new: &LogEntry) -> Difference {
        use LogEntry::{Detached, RequestStarted};
        match (old, new) {
            (Some(RequestStarted { .. } | Detached { .. }), _) => Difference::of_request(
                self.requests + 1,
                format!(" was not sent: instead `{}` was appended", summary(new)),
            ),
            (old, RequestStarted { .. } | Detached { .. }) => self.not_in_log(old),
            (old, new) => {
                let difference = Difference::of_entry(at, old, new);
                self.first_difference.take().unwrap_or(difference)
            }
        }
    }

    /// Replaces the message ids in a compaction or a rewind with the log's ids.
    fn with_logged_ids(&self, entry: &LogEntry) -> LogEntry {
        let mut entry = entry.clone();
        if let LogEntry::Rewound { to, .. } = &mut entry {
            *to = self.logged_ids.get(to).copied().unwrap_or(*to);
        }
        if let LogEntry::Compacted { first, last, summary, .. } = &mut entry {
            for id in [first, last].into_iter().chain(summary) {
                *id = self.logged_ids.get(id).copied().unwrap_or(*id);
            }
        }
        entry
    }

    /// Updates the state after the entry at `at`, which is `old` in the log and `new` now.
    fn update(&mut self, at: usize, old: &LogEntry, new: &LogEntry) {
        match (old, new) {
            (
                LogEntry::RequestStarted { model: old_model, tools: old_tools, .. },
                LogEntry::RequestStarted { model, tools, .. },
            ) => {
                self.announced_request = Some(at);
                self.is_streaming = true;
                self.requests += 1;
                let number = self.requests;
                let (old_tools, tools) = (names(old_tools), names(tools));
                let difference = Difference::of_values(number, "the model", old_model, model)
                    .or_else(|| {
                        Difference::of_values(number, "the offered tools", &old_tools, &tools)
                    });
                if let Some(difference) = difference {
                    self.diverge(difference);
                }
            }
            (LogEntry::Detached { .. }, _) => {
                self.requests += 1;
                self.is_detached_streamed = false;
            }
            (LogEntry::Replied { .. }, _) if self.announced_request.is_some() => {
                let why = ": another model replied to it, so build the agent with `replay.model()`";
                self.diverge(Difference::of_request(self.requests, why));
            }
            // The end of the run cuts off everything in progress.
            (LogEntry::RunEnded { .. }, _) => {
                self.is_streaming = false;
                self.starting_calls.clear();
            }
            (LogEntry::CallStarted { call, .. }, _) => {
                self.starting_calls.insert(call.clone());
                self.call_starts.insert(call.clone(), at);
            }
            (LogEntry::CallFinished { result }, _) => {
                let call = result.as_tool_result().map(|result| &result.call);
                if let Some(call) = call.filter(|call| self.starting_calls.remove(&**call)) {
                    let text = format!(
                        "call {call} ran in another tool: build the agent with `replay.tools()`, \
                         or with a `replay.stand_in` of each of its tools"
                    );
                    self.diverge(Difference::at_entry(at, text));
                }
            }
            _ => {}
        }
    }

    /// Returns whether requests no longer have an effect.
    pub(super) fn is_over(&self, epoch: &Epoch) -> bool {
        self.cancellation.is_cancelled()
            || self.is_past_end
            || epoch.is_cut_off && self.at >= epoch.end
    }

    /// Builds the difference for a request that the log lacks.
    pub(super) fn not_in_log(&self, old: Option<&LogEntry>) -> Difference {
        let what = old.map_or("the log ends".to_owned(), |old| {
            format!("the log continues with `{}`", summary(old))
        });
        let text = format!(" is not in the log: where it was sent, {what}");
        Difference::of_request(self.requests + 1, text)
    }
}

fn has_reply(log: &[LogEntry], id: MessageId) -> bool {
    log.iter().any(|entry| match entry {
        LogEntry::Detached { message, .. } => message.id == id,
        _ => false,
    })
}

fn names(tools: &Option<Arc<[Arc<str>]>>) -> String {
    tools.as_ref().map_or("all".to_owned(), |names| format!("[{}]", names.join(", ")))
}

/// Returns the message of an entry, including detached replies and compactions.
fn message(entry: &LogEntry) -> Option<&Arc<Message>> {
    match entry {
        LogEntry::Detached { message, .. } | LogEntry::Compacted { message, .. } => Some(message),
        entry => entry.message(),
    }
}

/// Returns a key that distinguishes the engine's entries, or `None` for entries that only a pattern
/// appends.
fn key(entry: &LogEntry) -> Option<(&'static str, &str)> {
    Some(match entry {
        LogEntry::RunStarted { .. } => ("run", ""),
        LogEntry::RunEnded { .. } => ("end", ""),
        LogEntry::Queued { input, .. } => ("queued", input),
        LogEntry::Delivered { input } => ("delivered", input),
        LogEntry::Signalled { input, .. } => ("signalled", input),
        LogEntry::Withdrawn { .. } => ("withdrawn", ""),
        LogEntry::RequestStarted { .. } => ("request", ""),
        LogEntry::Replied { .. } => ("reply", ""),
        LogEntry::Detached { .. } => ("detached", ""),
        LogEntry::Compacted { .. } => ("compacted", ""),
        LogEntry::CallAwaiting { call, .. } => ("awaiting", call),
        LogEntry::Approved { input, .. } => ("approved", input),
        LogEntry::Decided { call, .. } => ("decided", call),
        LogEntry::CallStarted { call, .. } => ("started", call),
        LogEntry::CallFinished { result } => {
            ("finished", result.as_tool_result().map_or("", |result| &*result.call))
        }
        LogEntry::AbortRequested { .. } => ("abort", ""),
        LogEntry::Reset => ("reset", ""),
        LogEntry::Opened { .. }
        | LogEntry::Settings { .. }
        | LogEntry::Owner { .. }
        | LogEntry::Handled { .. } => {
            return None;
        }
        LogEntry::ChildStarted { .. }
        | LogEntry::ChildAwaits { .. }
        | LogEntry::ChildEnded { .. } => return None,
        LogEntry::DetachedStarted { .. } | LogEntry::Charged { .. } | LogEntry::NotSent { .. } => {
            return None;
        }
        LogEntry::State { .. }
        | LogEntry::WaitStarted { .. }
        | LogEntry::WaitEnded { .. }
        | LogEntry::WaitCancelled { .. }
        | LogEntry::Emitted { .. }
        | LogEntry::Remembered { .. }
        | LogEntry::Rewound { .. }
        | LogEntry::Called { .. } => {
            return None;
        }
    })
}
