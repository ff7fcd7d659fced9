//! [`Progress`]: how far an agent has followed the log. Each entry that the agent appends is
//! compared with the next one of the log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::difference::{Difference, comparable, summary};
use super::epochs::{Epoch, is_silent};
use crate::log::entry::LogEntry;
use crate::log::fold::Fold;
use crate::log::outcome::RunStatus;
use crate::message::{CallId, Message, MessageId};
use crate::model::ChatRequest;
use crate::session::handle::AgentHandle;

/// What requests are compared with.
#[derive(Default)]
pub(super) enum Baseline {
    /// The conversation that the log had at that time.
    #[default]
    Log,
    /// Requests are not compared.
    Unchecked,
    /// The requests that another agent has sent.
    Requests(Vec<SentRequest>),
}

/// A request, and the model to which it was sent.
#[derive(Clone)]
pub(super) struct SentRequest {
    pub(super) model: Arc<str>,
    pub(super) request: ChatRequest,
}

/// What the log has of a detached request.
pub(super) enum DetachedRequest {
    /// Its reply, at this position.
    Replied(usize),
    /// The process died, or the run was aborted, before its reply came.
    CutOff,
}

#[derive(Default)]
pub(super) struct Progress {
    pub(super) epoch: usize,
    /// The position of the next entry of the log.
    pub(super) at: usize,
    /// The state that the entries before `at` lead to.
    pub(super) fold: Fold,
    pub(super) handle: Option<AgentHandle>,
    /// Cancelled when the epoch is over.
    pub(super) cancellation: CancellationToken,
    /// The number of requests before `at`.
    pub(super) requests: usize,
    /// The position of a request that was announced and has not reached its model.
    pub(super) announced_request: Option<usize>,
    /// Whether a reply has not been streamed up to its end or to where it was cut off.
    pub(super) is_streaming: bool,
    /// The positions of the detached replies that were requested.
    pub(super) requested_replies: HashSet<usize>,
    /// The number of detached requests that were sent in this epoch, without those that an abort
    /// cut off.
    pub(super) sent_detached: usize,
    /// Whether the next detached reply has been streamed.
    pub(super) is_detached_streamed: bool,
    /// Calls that were announced and have not reached their tools.
    pub(super) starting_calls: HashSet<CallId>,
    /// The position at which each call started.
    pub(super) call_starts: HashMap<CallId, usize>,
    /// Whether the agent does what would come after the end of the log.
    pub(super) is_past_end: bool,
    /// The positions whose inputs were sent.
    pub(super) sent_inputs: HashSet<usize>,
    /// The number of compactions that were requested within runs of this epoch.
    pub(super) requested_compactions: usize,
    /// Whether the agent uses the policy that compacts as the log does.
    pub(super) compacts_as_logged: bool,
    /// For each message of this epoch, the id that it has in the log.
    pub(super) logged_ids: HashMap<MessageId, MessageId>,
    pub(super) baseline: Baseline,
    pub(super) sent_requests: Vec<SentRequest>,
    /// The first entry that differs, where the log could still be followed.
    pub(super) first_difference: Option<Difference>,
    /// Why the log is no longer followed.
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
        log[self.at..to].iter().for_each(|entry| self.fold.apply(entry, &mut |_| {}));
        self.at = to;
    }

    fn skip_silent(&mut self, log: &[LogEntry], end: usize) {
        let next = (self.at..end).find(|at| !is_silent(&log[*at])).unwrap_or(end);
        self.skip_to(log, next.max(self.at));
    }

    /// Returns what the log has of the next detached request, or `None` if no request was sent
    /// there. `sent` are the requests that were sent in the epoch; in older logs, which do not have
    /// them, the next one is that of the next reply.
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

    /// Returns whether the run ends by an abort before another request of the conversation.
    fn is_aborted_next(&self, log: &[LogEntry], end: usize) -> bool {
        use LogEntry::{RequestStarted, RunEnded};
        let is_end = |entry: &&LogEntry| matches!(entry, RequestStarted { .. } | RunEnded { .. });
        let next = log[self.at.min(end)..end].iter().find(is_end);
        matches!(next, Some(RunEnded { end: RunStatus::Aborted, .. }))
    }

    /// Stops following the log. The first call decides what is reported.
    pub(super) fn diverge(&mut self, difference: Difference) {
        self.divergence.get_or_insert(difference);
        self.cancellation.cancel();
    }

    /// Compares an entry that the agent has appended with the log. The entries that only a pattern
    /// appends (state, messages, events) may differ, and the log is still followed; all others must
    /// come in the order of the log.
    pub(super) fn compare(&mut self, new: &LogEntry, log: &[LogEntry], epoch: &Epoch) {
        let at_end = self.at >= epoch.end;
        if is_silent(new) || self.divergence.is_some() {
            return;
        }
        // A log that ends before a run that starts without an input, or within a run, does not say
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

    /// Describes that `new` was appended where the log has `old` at the position `at`.
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

    /// Replaces the message ids in a compaction or a rewind with those of the log.
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
            // What was in progress was cut off.
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

    /// Returns whether requests have no effect any more.
    pub(super) fn is_over(&self, epoch: &Epoch) -> bool {
        self.cancellation.is_cancelled()
            || self.is_past_end
            || epoch.is_cut_off && self.at >= epoch.end
    }

    /// Describes that the log does not have the request that was sent now.
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

/// Returns the message of an entry, that of a detached reply or a compaction too.
fn message(entry: &LogEntry) -> Option<&Arc<Message>> {
    match entry {
        LogEntry::Detached { message, .. } | LogEntry::Compacted { message, .. } => Some(message),
        entry => entry.message(),
    }
}

/// Returns what distinguishes entries of the engine, or `None` for those that only a pattern
/// appends.
fn key(entry: &LogEntry) -> Option<(&'static str, &str)> {
    Some(match entry {
        LogEntry::RunStarted { .. } => ("run", ""),
        LogEntry::RunEnded { .. } => ("end", ""),
        LogEntry::Queued { input, .. } => ("queued", input),
        LogEntry::Delivered { input } => ("delivered", input),
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
        | LogEntry::Emitted { .. }
        | LogEntry::Remembered { .. }
        | LogEntry::Rewound { .. }
        | LogEntry::Called { .. } => {
            return None;
        }
    })
}
