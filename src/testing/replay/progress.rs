//! How far an agent has followed the log: each item that comes is held against the log's next one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::difference::{Difference, plain, tell};
use super::plan::{Life, is_silent};
use crate::log::entry::LogEntry;
use crate::log::fold::Fold;
use crate::message::{CallId, Message, MessageId};
use crate::model::ChatRequest;
use crate::session::handle::AgentHandle;

/// What requests are compared with.
#[derive(Default)]
pub(super) enum Against {
    /// The conversation that the log had then.
    #[default]
    Log,
    Nothing,
    /// What another agent has sent.
    Sent(Vec<Sent>),
}

/// A request, and the model that it went to.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) model: Arc<str>,
    pub(super) request: ChatRequest,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) life: usize,
    /// The next item of the log that has not come.
    pub(super) at: usize,
    /// What the log said before that.
    pub(super) fold: Fold,
    pub(super) handle: Option<AgentHandle>,
    pub(super) over: CancellationToken,
    /// Requests that the log has before `at`.
    pub(super) asked: usize,
    /// The item of a request that was announced and has not reached its model.
    pub(super) announced: Option<usize>,
    /// A model has not said yet all that it says before it is cut off or ends.
    pub(super) speaking: bool,
    /// The aside that comes next has been said.
    pub(super) aside_said: bool,
    /// Calls that were announced and have not reached their tools.
    pub(super) starting: HashSet<CallId>,
    /// Where each call was started.
    pub(super) started: HashMap<CallId, usize>,
    /// The agent does what comes after the log's end.
    pub(super) beyond: bool,
    pub(super) spoken: HashSet<usize>,
    /// How many compactions have been asked for in runs of this life.
    pub(super) wished: usize,
    /// The agent compacts as the log does.
    pub(super) guided: bool,
    /// The log's numbers of messages that have come in this life under other ones.
    pub(super) numbers: HashMap<MessageId, MessageId>,
    pub(super) against: Against,
    pub(super) sent: Vec<Sent>,
    /// The first item that differs, though the log could be followed on.
    pub(super) first: Option<Difference>,
    /// Why the log is not followed any further.
    pub(super) found: Option<Difference>,
}

impl State {
    /// The log up to this item has come.
    pub(super) fn catch_up(&mut self, log: &[LogEntry], to: usize) {
        log[self.at..to].iter().for_each(|item| self.fold.apply(item, &mut |_| {}));
        self.at = to;
    }

    pub(super) fn skip_silent(&mut self, log: &[LogEntry], end: usize) {
        let next = (self.at..end).find(|at| !is_silent(&log[*at])).unwrap_or(end);
        self.catch_up(log, next.max(self.at));
    }

    pub(super) fn give_up(&mut self, difference: Difference) {
        self.found.get_or_insert(difference);
        self.over.cancel();
    }

    /// An item has come. What a pattern writes of its own (state, messages, events) may differ and
    /// the log be followed on; all others come in the log's order.
    pub(super) fn take(&mut self, new: &LogEntry, log: &[LogEntry], life: &Life) {
        let ended = self.at >= life.end;
        if is_silent(new) || self.found.is_some() {
            return;
        }
        // A log that ends before what starts by itself, or in the middle of a run, says nothing of
        // what follows.
        self.beyond |= ended && (life.cut_off || matches!(new, LogEntry::RunStarted { .. }));
        if self.beyond {
            return;
        }
        let (came, new) = (message(new), &self.renumbered(new));
        let key = key(new);
        let next = match key {
            None => self.at,
            Some(_) => {
                (self.at..life.end).find(|at| self::key(&log[*at]).is_some()).unwrap_or(life.end)
            }
        };
        let old = log.get(next).filter(|_| next < life.end);
        if old.is_none_or(|old| plain(old) != plain(new)) || next > self.at {
            let differing = log.get(self.at).filter(|_| !ended);
            let difference = Difference::of_item(self.at, differing, new);
            self.first.get_or_insert(difference);
        }
        match old.filter(|old| self::key(old) == key) {
            Some(old) => {
                if let (Some(old), Some(came)) = (message(old), came) {
                    self.numbers.insert(came.id, old.id);
                }
                self.catch_up(log, next + 1);
                self.follow(next, old, new);
                self.skip_silent(log, life.end);
            }
            None if key.is_none() => {}
            None => {
                let number = self.asked + 1;
                let difference = match (old, new) {
                    (Some(LogEntry::RequestStarted { .. } | LogEntry::Detached { .. }), _) => {
                        Difference::of_request(
                            number,
                            format!(" never came: instead came `{}`", tell(new)),
                        )
                    }
                    (old, LogEntry::RequestStarted { .. } | LogEntry::Detached { .. }) => {
                        self.not_in_log(old)
                    }
                    (old, new) => {
                        let difference = Difference::of_item(next, old, new);
                        self.first.take().unwrap_or(difference)
                    }
                };
                self.give_up(difference);
            }
        }
    }

    /// A compaction that came, with the log's numbers of the messages that it names.
    fn renumbered(&self, item: &LogEntry) -> LogEntry {
        let mut item = item.clone();
        if let LogEntry::Compacted { first, last, summary, .. } = &mut item {
            for id in [first, last].into_iter().chain(summary) {
                *id = self.numbers.get(id).copied().unwrap_or(*id);
            }
        }
        item
    }

    /// What an item that came leads to. `at` is its place in the log.
    fn follow(&mut self, at: usize, old: &LogEntry, new: &LogEntry) {
        match (old, new) {
            (
                LogEntry::RequestStarted { model: old_model, tools: old_tools, .. },
                LogEntry::RequestStarted { model, tools, .. },
            ) => {
                (self.announced, self.speaking, self.asked) = (Some(at), true, self.asked + 1);
                let names = |tools: &Option<Arc<[Arc<str>]>>| {
                    tools
                        .as_ref()
                        .map_or("all".to_owned(), |names| format!("[{}]", names.join(", ")))
                };
                let difference = Difference::of_values(self.asked, "the model", old_model, model)
                    .or_else(|| {
                        Difference::of_values(
                            self.asked,
                            "what it offers of the tools",
                            &names(old_tools),
                            &names(tools),
                        )
                    });
                if let Some(difference) = difference {
                    self.give_up(difference);
                }
            }
            (LogEntry::Detached { .. }, _) => {
                (self.asked, self.aside_said) = (self.asked + 1, false)
            }
            (LogEntry::Replied { .. }, _) if self.announced.is_some() => {
                let why = ": another model answered it, so build the agent with `replay.model()`";
                self.give_up(Difference::of_request(self.asked, why));
            }
            // Whatever had begun was cut off.
            (LogEntry::RunEnded { .. }, _) => {
                self.speaking = false;
                self.starting.clear();
            }
            (LogEntry::CallStarted { call, .. }, _) => {
                self.starting.insert(call.clone());
                self.started.insert(call.clone(), at);
            }
            (LogEntry::CallFinished { result }, _) => {
                let call = result.as_tool_result().map(|result| &result.call);
                if let Some(call) = call.filter(|call| self.starting.remove(&**call)) {
                    let text = format!(
                        "call {call} was answered by another tool: build the agent with `replay.tools()`, or with a `replay.stand_in` of each of its tools"
                    );
                    self.give_up(Difference::at_item(at, text));
                }
            }
            _ => {}
        }
    }

    /// Whether requests that come now are of no interest.
    pub(super) fn is_over(&self, life: &Life) -> bool {
        self.over.is_cancelled() || self.beyond || life.cut_off && self.at >= life.end
    }

    /// The request that comes now is one more than the log has.
    pub(super) fn not_in_log(&self, old: Option<&LogEntry>) -> Difference {
        let what = old.map_or("the log ends".to_owned(), |old| {
            format!("the log goes on with `{}`", tell(old))
        });
        Difference::of_request(self.asked + 1, format!(" is not in the log: where it came, {what}"))
    }
}

/// The message that an item brings, that of an aside or a summary too.
fn message(item: &LogEntry) -> Option<&Arc<Message>> {
    match item {
        LogEntry::Detached { message, .. } | LogEntry::Compacted { message, .. } => Some(message),
        item => item.message(),
    }
}

/// What tells items of the engine apart; nothing for what only a pattern writes.
fn key(item: &LogEntry) -> Option<(&'static str, &str)> {
    Some(match item {
        LogEntry::RunStarted { .. } => ("run", ""),
        LogEntry::RunEnded { .. } => ("end", ""),
        LogEntry::Queued { input, .. } => ("queued", input),
        LogEntry::Delivered { input } => ("delivered", input),
        LogEntry::Withdrawn { .. } => ("withdrawn", ""),
        LogEntry::RequestStarted { .. } => ("request", ""),
        LogEntry::Replied { .. } => ("reply", ""),
        LogEntry::Detached { .. } => ("aside", ""),
        LogEntry::Compacted { .. } => ("compacted", ""),
        LogEntry::CallAwaiting { call, .. } => ("awaiting", call),
        LogEntry::Decided { call, .. } => ("decided", call),
        LogEntry::CallStarted { call, .. } => ("started", call),
        LogEntry::CallFinished { result } => {
            ("finished", result.as_tool_result().map_or("", |result| &*result.call))
        }
        LogEntry::AbortRequested { .. } => ("abort", ""),
        LogEntry::Reset => ("reset", ""),
        LogEntry::Opened { .. } | LogEntry::Settings { .. } => return None,
        LogEntry::State { .. } | LogEntry::Emitted { .. } | LogEntry::Remembered { .. } => {
            return None;
        }
    })
}
