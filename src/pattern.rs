//! The seam for loops: [`BehaviorPattern`].

pub(crate) mod context;
pub(crate) mod step;

pub use crate::error::StepError;
pub use crate::session::ask::Ask;
pub use crate::session::batch::BatchOutcome;
pub use crate::session::reply::Reply;
pub use context::AgentContext;
pub use step::{Remember, StepContext};

use async_trait::async_trait;

/// How an agent behaves: the loop between the user, the model and the tools.
///
/// A pattern is ordinary async code over the verbs of [`StepContext`]. One value serves every
/// session, so it keeps nothing about a session: what it must remember is in
/// [`StepContext::state`]. It reaches models, tools, time and chance only through the step.
///
/// The future of [`BehaviorPattern::next_step`] may be dropped at any await (an abort, a limit);
/// the engine then puts the session in order.
#[async_trait]
pub trait BehaviorPattern: Send + Sync {
    /// The system prompt this pattern sends, made from the agent's own header.
    fn system_instruction(&self, header: &str) -> String {
        header.to_owned()
    }

    /// Goes on from where the conversation stands until the agent rests again.
    ///
    /// It is entered from its top for each input, and again after an answer to an external action
    /// or a restart, with the open batch closed by then. So it is right if it goes on from what the
    /// conversation and its state say.
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError>;
}

#[async_trait]
impl<P: BehaviorPattern + ?Sized> BehaviorPattern for std::sync::Arc<P> {
    fn system_instruction(&self, header: &str) -> String {
        (**self).system_instruction(header)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        (**self).next_step(step).await
    }
}

/// How a pattern ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepEnd {
    /// Nothing is left to do.
    Done,
    /// Calls wait for an answer from outside.
    AwaitingAction,
}

impl Reply {
    /// Returns the value that ends the step after a reply for which [`Reply::should_stop`] is true:
    /// the model's error, or `Done` if a hook ended the run.
    pub fn finish(self) -> Result<StepEnd, StepError> {
        self.error().map_or(Ok(StepEnd::Done), |error| Err(StepError::Model(error.clone())))
    }
}
