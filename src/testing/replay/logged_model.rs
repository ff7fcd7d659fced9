//! [`LoggedModel`]: a model that replies from the log.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use super::difference::Difference;
use super::logged_reply::{LoggedReply, wraps_up};
use super::progress::{Baseline, DetachedRequest, Progress, SentRequest};
use super::shared::SharedReplay;
use crate::error::{ModelError, ModelErrorKind};
use crate::log::entry::LogEntry;
use crate::message::History;
use crate::model::{ChatModel, ChatRequest, ModelEvent, ModelInfo, Prices};
use crate::session::request::cut_replies::with_notes;
use crate::testing::request_text::{options_text, tools_text};

/// A model that replies from the log.
pub(super) struct LoggedModel {
    replay: Arc<SharedReplay>,
    info: ModelInfo,
}

impl LoggedModel {
    pub(super) fn new(replay: Arc<SharedReplay>, id: Arc<str>, window: Option<u64>) -> Self {
        let has_cost = |entry: &LogEntry| {
            matches!(
                entry,
                LogEntry::Replied { cost: Some(_), .. } | LogEntry::Detached { cost: Some(_), .. }
            )
        };
        let prices = replay.log.iter().any(has_cost).then(Prices::default);
        let info = ModelInfo::new(id);
        LoggedModel { info: ModelInfo { prices, context_window: window, ..info }, replay }
    }

    /// Returns the logged reply to this request, or `None` if the log is no longer followed.
    fn reply(&self, request: ChatRequest) -> Option<LoggedReply> {
        let (log, mut progress) = (&self.replay.log, self.replay.progress());
        let epoch = &self.replay.epochs[progress.epoch];
        if progress.is_over(epoch) {
            return None;
        }
        let announced = progress.announced_request.take();
        let sent = self.replay.detached.get(progress.epoch).map_or(&[][..], Vec::as_slice);
        let logged = match announced {
            Some(at) => Some(DetachedRequest::Replied(at)),
            None => progress.next_detached(log, epoch.end, sent),
        };
        let Some(logged) = logged else {
            let expected = log.get(progress.at).filter(|_| progress.at < epoch.end);
            let difference = progress.not_in_log(expected);
            drop(progress);
            self.replay.diverge(difference);
            return None;
        };
        let is_detached = announced.is_none();
        let mut of_log = request.messages.clone();
        if announced.is_some_and(|at| wraps_up(&log[at])) {
            Arc::make_mut(&mut of_log).pop(); // the instruction for the answer at a limit
        }
        let difference = compare(&progress, &self.info.id, &request, &of_log, is_detached);
        if let Some(difference) = difference {
            drop(progress);
            self.replay.diverge(difference);
            return None;
        }
        progress.sent_requests.push(SentRequest { model: self.info.id.clone(), request });
        drop(progress);
        self.replay.reply_started();
        let log = &log[..epoch.end];
        Some(match logged {
            DetachedRequest::CutOff => LoggedReply::cut_off(epoch.end),
            DetachedRequest::Replied(at) if is_detached => LoggedReply::of_detached(log, at),
            DetachedRequest::Replied(at) => LoggedReply::of_request(log, at),
        })
    }
}

/// Compares a request, and the messages that a log can have of it, with the baseline. Returns the
/// first difference.
fn compare(
    progress: &Progress,
    model: &Arc<str>,
    request: &ChatRequest,
    of_log: &History,
    is_detached: bool,
) -> Option<Difference> {
    let number = progress.requests + usize::from(is_detached);
    match &progress.baseline {
        Baseline::Unchecked => None,
        Baseline::Log if is_detached => None,
        Baseline::Log => {
            Difference::of_messages(number, &with_notes(progress.state.context.clone()), of_log)
        }
        Baseline::Requests(sent) => {
            let Some(expected) = sent.get(progress.sent_requests.len()) else {
                return Some(Difference::of_request(number, " is one more than were sent before"));
            };
            let old = &expected.request;
            let values = |what, old: &str, new: &str| Difference::of_values(number, what, old, new);
            values("the model", &expected.model, model)
                .or_else(|| values("the system prompt", &old.system, &request.system))
                .or_else(|| Difference::of_messages(number, &old.messages, &request.messages))
                .or_else(|| values("the list of tools", &tools_text(old), &tools_text(request)))
                .or_else(|| values("an option", &options_text(old), &options_text(request)))
        }
    }
}

fn replay_is_over() -> ModelEvent {
    ModelEvent::Error(ModelError::new(ModelErrorKind::InvalidRequest, "the replay is over"))
}

impl ChatModel for LoggedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let Some(LoggedReply { events, until, end, is_detached }) = self.reply(request) else {
            return stream::iter([replay_is_over()]).boxed();
        };
        let last = async move {
            if self.replay.reply_streamed(is_detached) {
                tokio::task::yield_now().await; // the session receives the input first
            }
            match end {
                Some(end) if self.replay.reached(until).await => end,
                _ => {
                    self.replay.cancellation().cancelled().await;
                    replay_is_over()
                }
            }
        };
        stream::iter(events).chain(stream::once(last)).boxed()
    }
}
