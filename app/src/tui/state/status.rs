//! What the status line tells.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::message::{MessageKind, Usage};
use loopwright_core::model::{ModelInfo, ThinkingLevel};

use super::effect::Opened;

/// Where the conversation stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Run {
    /// A session is being opened.
    #[default]
    Opening,
    /// There is none.
    Closed,
    /// It is the user's turn.
    Rest,
    /// A run goes on.
    Working {
        /// Since when, in milliseconds since 1970.
        since: u64,
        doing: Doing,
        /// An abort is on its way.
        stopping: bool,
    },
}

/// What a run does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Doing {
    /// It waits for the model.
    Asking,
    Thinking,
    Writing,
    /// The model writes a call.
    Calling,
    Running(Arc<str>),
    SummaryCompaction,
}

/// What is known of the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) model: Option<ModelInfo>,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) kept: bool,
    pub(crate) root: PathBuf,
    pub(crate) usage: Usage,
    /// US dollars, as far as prices are known.
    pub(crate) cost: f64,
    /// Tokens that the conversation has in a request, if known.
    pub(crate) context: Option<u64>,
}

impl Status {
    /// Of a session that was opened.
    pub(crate) fn opened(&mut self, opened: &Opened) {
        self.session = Some(opened.state.session_key.clone());
        self.thinking = opened.state.thinking_level;
        (self.usage, self.cost) = (opened.usage, opened.cost);
        (self.kept, self.root) = (opened.kept, opened.root.clone());
        self.model = Some(opened.model.clone());
        let replies =
            opened.state.messages.iter().rev().filter_map(|message| message.as_assistant());
        self.context = replies.map(|reply| reply.usage.total()).find(|tokens| *tokens > 0);
    }

    /// Takes in what an event tells.
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

    /// How much of the context window is used, in percent, if both are known.
    pub(crate) fn share(&self) -> Option<u64> {
        let window = self.model.as_ref()?.context_window.filter(|window| *window > 0)?;
        Some(self.context?.saturating_mul(100) / window)
    }
}
