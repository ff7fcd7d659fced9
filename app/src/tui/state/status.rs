//! The status line: model, session, tokens and cost.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::message::{MessageKind, Usage};
use loopwright_core::model::{ModelInfo, RetryNotice, ThinkingLevel};

use super::effect::Opened;

/// The phase of the conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Run {
    /// No session is open.
    #[default]
    Closed,
    /// No run is in progress.
    Idle,
    /// A run is in progress.
    Working {
        /// The start of the run, in milliseconds since 1970.
        since: u64,
        activity: Activity,
        /// `true` once an abort was requested.
        stopping: bool,
    },
}

/// The activity of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Activity {
    /// Waiting for the model.
    Requesting,
    /// Waiting until the request is sent again, at this time in milliseconds since 1970.
    Retrying(Arc<RetryNotice>, u64),
    Thinking,
    Writing,
    /// The model is writing a call.
    Calling,
    Running(Arc<str>),
    Compacting,
}

/// Properties of the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) model: Option<ModelInfo>,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) session: Option<Arc<str>>,
    /// `true` if the session outlives the process.
    pub(crate) is_persistent: bool,
    pub(crate) root: PathBuf,
    pub(crate) usage: Usage,
    /// The cost in US dollars, where prices are known.
    pub(crate) cost: f64,
    /// The tokens of the last request and its reply, if known.
    pub(crate) context: Option<u64>,
}

impl Status {
    /// Sets the properties of a session that was opened.
    pub(crate) fn opened(&mut self, opened: &Opened) {
        self.session = Some(opened.state.session_key.clone());
        self.thinking = opened.state.thinking_level;
        self.usage = opened.usage;
        self.cost = opened.cost;
        self.is_persistent = opened.is_persistent;
        self.root = opened.root.clone();
        self.model = Some(opened.model.clone());
        let replies =
            opened.state.messages.iter().rev().filter_map(|message| message.as_assistant());
        self.context = replies.map(|reply| reply.usage.total()).find(|tokens| *tokens > 0);
    }

    /// Updates usage and cost from an event.
    pub(crate) fn event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageEnd { message } => {
                let MessageKind::Assistant(reply) = &message.body else {
                    return;
                };
                self.usage += reply.usage;
                self.cost += self
                    .model
                    .as_ref()
                    .and_then(|model| model.cost(&reply.usage))
                    .unwrap_or_default();
                if reply.usage.total() > 0 {
                    self.context = Some(reply.usage.total());
                }
            }
            AgentEvent::Compaction(done) => self.context = Some(done.tokens_after),
            AgentEvent::Reset => self.context = None,
            _ => {}
        }
    }

    /// Returns the share of the context window in use, in percent, if it is known.
    pub(crate) fn share(&self) -> Option<u64> {
        let window = self.model.as_ref()?.context_window.filter(|window| *window > 0)?;
        Some(self.context?.saturating_mul(100) / window)
    }
}
