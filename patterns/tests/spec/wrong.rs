//! Wrong patterns, each with one mistake. Otherwise they run [`PiPattern`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use loopwright_core::message::{AssistantMessage, UserMessage};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use loopwright_patterns::PiPattern;

/// The number of rounds of the patterns that ask again.
const ROUNDS: u32 = 2;

/// A pattern that counts its rounds in `self`.
#[derive(Default)]
pub(crate) struct CountsInSelf(AtomicU32);

#[async_trait]
impl BehaviorPattern for CountsInSelf {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        loop {
            let end = PiPattern.next_step(step).await?;
            if end != StepEnd::Done || !ends_with_reply(step) || self.0.load(SeqCst) == ROUNDS {
                return Ok(end);
            }
            self.0.fetch_add(1, SeqCst);
            step.remember(UserMessage::from("Check it.")).await?;
        }
    }
}

/// A pattern that writes its state and its message separately.
pub(crate) struct WritesSeparately;

#[async_trait]
impl BehaviorPattern for WritesSeparately {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        loop {
            let end = PiPattern.next_step(step).await?;
            let round: u32 = step.state("round").unwrap_or(0);
            if end != StepEnd::Done || !ends_with_reply(step) || round == ROUNDS {
                return Ok(end);
            }
            step.set_state("round", round + 1)?;
            step.flush().await?;
            step.remember(UserMessage::from("Check it.")).await?;
        }
    }
}

/// A pattern that fails if it is entered again for a request, except after a steer.
pub(crate) struct FailsOnReentry;

#[async_trait]
impl BehaviorPattern for FailsOnReentry {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        if step.state("entered").unwrap_or(false) {
            return Err(lost());
        }
        step.take_input().await?;
        step.set_state("entered", true)?;
        let end = PiPattern.next_step(step).await;
        let is_over = matches!(end, Ok(StepEnd::Done) | Err(StepError::Steered));
        step.set_state("entered", !is_over)?;
        end
    }
}

/// A pattern that returns without an answer if it is entered again for a request, except after a
/// steer.
pub(crate) struct ForgetsOnReentry;

#[async_trait]
impl BehaviorPattern for ForgetsOnReentry {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        if step.state("entered").unwrap_or(false) {
            return Ok(StepEnd::Done);
        }
        step.take_input().await?;
        step.set_state("entered", true)?;
        let end = PiPattern.next_step(step).await;
        let is_over = matches!(end, Ok(StepEnd::Done) | Err(StepError::Steered));
        step.set_state("entered", !is_over)?;
        end
    }
}

/// A pattern with a side effect in each pass that is not in the log.
pub(crate) struct RepeatsEffect(pub(crate) Arc<AtomicU64>);

#[async_trait]
impl BehaviorPattern for RepeatsEffect {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let count = &self.0;
        step.wait_for(async { count.fetch_add(1, SeqCst) }).await?;
        PiPattern.next_step(step).await
    }
}

/// A pattern that logs its side effect in advance, so that it happens at most once.
pub(crate) struct LogsEffect(pub(crate) Arc<AtomicU64>);

#[async_trait]
impl BehaviorPattern for LogsEffect {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        if !step.state("sent").unwrap_or(false) {
            step.set_state("sent", true)?;
            step.flush().await?;
            let count = &self.0;
            step.wait_for(async { count.fetch_add(1, SeqCst) }).await?;
        }
        PiPattern.next_step(step).await
    }
}

/// The loop of tools with one mistake.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Loop {
    /// No steers and no follow-ups are taken.
    TakesNoMessages,
    /// Follow-ups are taken, but no steers.
    TakesNoSteers,
    /// The run ends while calls wait for decisions.
    IgnoresAwaitsUser,
    /// The model is asked again while calls wait for decisions.
    AsksInOpenBatch,
    /// After an error of the model, the run ends as if it had answered.
    HidesModelErrors,
    /// After an error of the model, it is asked again.
    RetriesModelErrors,
    /// After an error of the model, a detached request is sent before the run ends.
    AsksAfterModelErrors,
    /// After an error of the model, a message is added.
    NotesModelErrors,
    /// After an error of the model, the run ends with another error.
    FailsAtModelErrors,
    /// After an error of the model, the run ends with an answer, and the next one fails.
    FailsAfterModelErrors,
    /// At a limit, the run ends as if it was done.
    HidesLimits,
    /// An answer is requested to results that ask for the end.
    IgnoresTerminate,
    /// The run ends before the model has seen the results.
    IgnoresResults,
    /// Remaining messages are delivered at the end, and not answered.
    DeliversLate,
    /// A copy of each delivered message is added.
    CopiesMessages,
    /// The run never ends.
    Hangs,
    /// No mistake.
    Right,
}

#[async_trait]
impl BehaviorPattern for Loop {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        if step.session_state("failed").unwrap_or(false) {
            return Err(lost());
        }
        let takes_steers =
            !matches!(self, Loop::TakesNoMessages | Loop::TakesNoSteers | Loop::DeliversLate);
        loop {
            let before = step.history().len();
            if takes_steers {
                step.take_steering().await?;
            }
            if *self == Loop::CopiesMessages {
                for message in step.history().iter().skip(before) {
                    step.remember(UserMessage::from(message.text())).await?;
                }
            }
            let reply = match step.ask().await {
                Err(StepError::Limit(_)) if *self == Loop::HidesLimits => return Ok(StepEnd::Done),
                reply => reply?,
            };
            if reply.should_stop() {
                match self {
                    Loop::HidesModelErrors => return Ok(StepEnd::Done),
                    Loop::RetriesModelErrors => continue,
                    Loop::FailsAtModelErrors => return Err(lost()),
                    Loop::FailsAfterModelErrors => {
                        step.set_session_state("failed", true)?;
                        step.remember(AssistantMessage::from("It failed.")).await?;
                        return Ok(StepEnd::Done);
                    }
                    Loop::AsksAfterModelErrors => drop(step.ask_with(Ask::detached()).await?),
                    Loop::NotesModelErrors => {
                        step.remember(UserMessage::from("It failed.")).await?;
                    }
                    _ => {}
                }
                return reply.finish();
            }
            if *self == Loop::Hangs {
                step.wait_for(std::future::pending::<()>()).await?;
            }
            let batch = step.call_tools(&reply).await?;
            match self {
                Loop::AsksInOpenBatch if batch.awaits_user() => continue,
                Loop::IgnoresAwaitsUser => {}
                _ if batch.awaits_user() => return Ok(StepEnd::AwaitingAction),
                _ => {}
            }
            let wants_reply = match self {
                Loop::IgnoresTerminate => reply.has_calls(),
                Loop::IgnoresResults => false,
                _ => batch.wants_reply(),
            };
            let has_more = wants_reply
                || takes_steers && step.has_steering()
                || *self != Loop::TakesNoMessages && step.take_follow_ups().await?;
            if *self == Loop::DeliversLate && step.has_messages() && !wants_reply {
                step.take_messages().await?;
                return Ok(StepEnd::Done);
            }
            if !has_more {
                return Ok(StepEnd::Done);
            }
            if *self == Loop::TakesNoSteers && step.has_steering() && !wants_reply {
                return Ok(StepEnd::Done);
            }
        }
    }
}

/// A pattern that keeps the round of a request for the session, and clears it only after a success.
pub(crate) struct KeepsRound;

#[async_trait]
impl BehaviorPattern for KeepsRound {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        loop {
            let end = PiPattern.next_step(step).await?;
            let round: u32 = step.session_state("round").unwrap_or(0);
            if end != StepEnd::Done || !ends_with_reply(step) || round == ROUNDS {
                if end == StepEnd::Done {
                    step.set_session_state("round", ())?;
                }
                return Ok(end);
            }
            step.set_session_state("round", round + 1)?;
            step.remember(UserMessage::from("Check it.")).await?;
        }
    }
}

/// A pattern that keeps the current session in `self`.
#[derive(Default)]
pub(crate) struct KeepsSession(Mutex<String>);

#[async_trait]
impl BehaviorPattern for KeepsSession {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        *self.0.lock().unwrap() = step.session_id().to_string();
        let end = PiPattern.next_step(step).await?;
        if *self.0.lock().unwrap() != **step.session_id() {
            step.emit("mixed up", ()).await?;
        }
        Ok(end)
    }
}

fn lost() -> StepError {
    StepError::pattern(std::io::Error::other("the plan is lost"))
}

fn ends_with_reply(step: &StepContext<'_>) -> bool {
    step.history().last().is_some_and(|message| message.as_assistant().is_some())
}
