//! Compaction at work: what the policy plans is summarised, written, and stands in the requests to
//! come.

use std::sync::Arc;

use crate::error::{InputError, StepError};
use crate::log::compaction::{
    Compaction, CompactionCause, CompactionContext, CompactionPlan, CompactionPolicy, Replacement,
    SummaryRequest, check_range, tokens_of, tool_tokens,
};
use crate::log::entry::LogEntry;
use crate::log::input::QueueKind;
use crate::message::{Message, MessageId, StopReason};
use crate::model::ChatRequest;
use crate::session::detached::Said;
use crate::session::{Receipt, Session, Wish};

/// When a conversation may be compacted.
pub(crate) struct Occasion<'a> {
    pub(crate) why: CompactionCause,
    /// The model of the coming request, if it is not the agent's own.
    pub(crate) model: Option<&'a str>,
    /// Tokens that this request shows besides the conversation.
    pub(crate) also: u64,
}

/// How a compaction went.
pub(crate) enum Compacted {
    /// This was replaced; nothing where nothing had to be, or could be.
    Done(Vec<Arc<Compaction>>),
    /// A steer cut it off after this had been replaced.
    Interrupted(Vec<Arc<Compaction>>),
    /// There is no summary, and nothing was replaced: it was asked for, or the request fits as it
    /// is.
    Failed(StepError),
}

/// What came of asking for a summary.
enum Summary {
    Made(LogEntry, MessageId, String),
    Interrupted(LogEntry),
    Failed(Option<LogEntry>, StepError),
}

impl Compacted {
    /// What whoever asked for it is told.
    fn told(self) -> Result<Vec<Arc<Compaction>>, InputError> {
        match self {
            Compacted::Interrupted(made) if made.is_empty() => {
                Err(InputError::NotCompacted("a steer interrupted it".into()))
            }
            Compacted::Done(made) | Compacted::Interrupted(made) => Ok(made),
            Compacted::Failed(error) => Err(InputError::NotCompacted(error.to_string())),
        }
    }
}

impl Session {
    /// Before a request to this model, which shows so many tokens besides the conversation: what
    /// was asked for, and what the policy finds necessary. Says whether a summary may have been
    /// paid for.
    pub(crate) async fn make_room(
        &mut self,
        model: Option<&str>,
        also: u64,
    ) -> Result<bool, StepError> {
        if self.config.compaction.is_none() {
            return Ok(false);
        }
        let asked = !self.compacting.wishes.is_empty();
        while let Some(wish) = self.compacting.wishes.front() {
            let why = CompactionCause::Asked { instructions: wish.instructions.clone() };
            // Dropped here, the wish is still there.
            let done = self.compact(&Occasion { why, model, also }).await?;
            let interrupted = matches!(done, Compacted::Interrupted(_));
            if let Some(wish) = self.compacting.wishes.pop_front() {
                self.answer(wish, done.told());
            }
            if interrupted {
                return Ok(true);
            }
        }
        let done = self.compact(&Occasion { why: CompactionCause::Threshold, model, also }).await?;
        Ok(asked || !matches!(done, Compacted::Done(made) if made.is_empty()))
    }

    /// Answers one who asked for a compaction.
    pub(crate) fn answer(&self, wish: Wish, told: Result<Vec<Arc<Compaction>>, InputError>) {
        let receipt = |compacted| Receipt { compacted, ..Receipt::of(self.fold.make_input_id()) };
        let _ = wish.ack.send(told.map(receipt));
    }

    /// The whole of a run that somebody asked for. False if somebody has said something since it
    /// began, which the pattern has to answer.
    pub(crate) async fn compact_run(
        &mut self,
        instructions: Option<Arc<str>>,
    ) -> Result<bool, StepError> {
        if self.fold.turn.number > 0 {
            return Ok(false); // the pattern has begun to answer, perhaps before a crash
        }
        let is_done =
            self.fold.standing.as_ref().is_some_and(|standing| standing.run == self.fold.run);
        if !is_done {
            let done = self.compact(&Occasion::asked(instructions)).await?;
            let failed =
                if let Compacted::Failed(error) = &done { Some(error.clone()) } else { None };
            self.compacting.told = Some(done.told());
            if let Some(error) = failed {
                return Err(error);
            }
        }
        let run_at = self.fold.run_at;
        Ok(!self.fold.queue.iter().any(|w| w.at > run_at && w.lane != QueueKind::Request))
    }

    /// Whether the policy would replace anything if it were asked now.
    pub(crate) fn can_compact(&mut self, instructions: Option<Arc<str>>) -> bool {
        self.look(&Occasion::asked(instructions), |policy, context| policy.plan(context))
            .flatten()
            .is_some()
    }

    /// Replaces what the policy says, as often as it says.
    pub(crate) async fn compact(&mut self, at: &Occasion<'_>) -> Result<Compacted, StepError> {
        let mut made = Vec::new();
        while let Some(plan) = self.look(at, |policy, context| policy.plan(context)).flatten() {
            let CompactionPlan { replaces, summary, more, fits } = &plan;
            let illegal = |why| {
                StepError::Pattern(format!("the compaction policy made an illegal plan: {why}"))
            };
            check_range(&self.fold.context, replaces).map_err(illegal)?;
            let (first, last) =
                (self.fold.context[replaces.start].id, self.fold.context[replaces.end - 1].id);
            let can_wait = *fits && matches!(at.why, CompactionCause::Threshold);
            let (mut text, mut detached, mut error) = (None, None, None);
            if let Some(request) = summary {
                if can_wait && !self.has_grown() {
                    break;
                }
                match self.summarise(request, at).await? {
                    Summary::Made(item, id, said) => {
                        (text, detached) = (Some(said), Some(id));
                        self.stage(item);
                    }
                    Summary::Interrupted(item) => {
                        self.commit(item).await?;
                        return Ok(Compacted::Interrupted(made));
                    }
                    Summary::Failed(item, failure) => {
                        tracing::warn!(session = &*self.id, error = %failure, why = ?at.why, "there is no summary");
                        if can_wait && item.is_some() {
                            self.compacting.unsummarised = Some(self.fold.load.messages);
                        }
                        item.into_iter().for_each(|item| self.stage(item));
                        if can_wait || matches!(at.why, CompactionCause::Asked { .. }) {
                            self.flush().await?;
                            return Ok(if made.is_empty() {
                                Compacted::Failed(failure)
                            } else {
                                Compacted::Done(made)
                            });
                        }
                        error = Some(failure.to_string().into());
                    }
                }
            }
            let finished =
                self.look(at, |policy, context| policy.finish(context, &plan, text.as_deref()));
            let Some(Replacement { message, details }) = finished else {
                break;
            };
            let (message, details, why) =
                (self.message(message), Arc::new(details), at.why.clone());
            self.stage(LogEntry::Compacted {
                first,
                last,
                message,
                details,
                summary: detached,
                error,
                why,
            });
            self.flush().await?;
            let Some(standing) = &self.fold.standing else {
                break;
            };
            let told = standing.told.clone();
            let shrinks = told.tokens_after < told.tokens_before;
            made.push(told);
            if !more || !shrinks {
                break;
            }
        }
        Ok(Compacted::Done(made))
    }

    /// Whether the conversation is another than when there was no summary of it: grown by a
    /// sixteenth, or made smaller.
    fn has_grown(&self) -> bool {
        let now = self.fold.load.messages;
        self.compacting.unsummarised.is_none_or(|then| now < then || now > then + then / 16)
    }

    async fn summarise(
        &mut self,
        request: &SummaryRequest,
        at: &Occasion<'_>,
    ) -> Result<Summary, StepError> {
        let model = match self.config.model(request.model.as_deref().or(at.model)) {
            Ok(model) => model.clone(),
            Err(error) => return Ok(Summary::Failed(None, error)),
        };
        // The last turn that is left is for the request itself, where there is one.
        let more = u32::from(!matches!(at.why, CompactionCause::Asked { .. }));
        if let Err(error) = self.check_limits(&*model, more) {
            return Ok(Summary::Failed(None, error));
        }
        let message = Message::new(Default::default(), request.message.clone());
        let can_say =
            model.info().max_output.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
        let request = ChatRequest {
            system: request.system.clone(),
            messages: Arc::new(vec![Arc::new(message)]),
            max_tokens: request.max_tokens.map(|most| most.min(can_say)),
            session: self.id.clone(),
            ..ChatRequest::default()
        };
        let Said { item, message, error } = self.say_aside(&*model, request).await?;
        Ok(match (message, error) {
            (_, Some(error)) => Summary::Failed(Some(item), error.into()),
            (None, None) => Summary::Interrupted(item),
            (Some(message), None) if message.text().trim().is_empty() => Summary::Failed(
                Some(item),
                StepError::Pattern("the model answered without a summary".into()),
            ),
            (Some(message), None) => {
                let is_cut =
                    message.as_assistant().is_some_and(|reply| reply.stop == StopReason::Length);
                Summary::Made(item, message.id, message.text() + if is_cut { " […]" } else { "" })
            }
        })
    }

    /// What each request has besides messages. Counted anew only where the tools are others.
    fn overhead(&mut self) -> u64 {
        let tools = self.tools.list();
        if !self.compacting.overhead.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, tools)) {
            let tokens = tools.iter().map(|tool| tool_tokens(tool)).sum::<u64>()
                + tokens_of(self.config.system.len());
            self.compacting.overhead = Some((tools.clone(), tokens));
        }
        self.compacting.overhead.as_ref().map_or(0, |(_, tokens)| *tokens)
    }

    /// Lets the policy look at the conversation, if there is a policy.
    fn look<T>(
        &mut self,
        at: &Occasion<'_>,
        look: impl FnOnce(&dyn CompactionPolicy, &CompactionContext<'_>) -> T,
    ) -> Option<T> {
        let policy = self.config.compaction.clone()?;
        let overhead = self.overhead();
        let info = |name: Option<&str>| {
            self.config.model(name.or(at.model)).ok().map(|model| model.info())
        };
        let windows = |name: Option<&str>| info(name)?.context_window;
        let asked = self.config.max_tokens.map(u64::from);
        let context = CompactionContext {
            messages: &self.fold.context,
            tokens: self.fold.load.tokens(overhead) + at.also,
            overhead: overhead + at.also,
            max_output: asked.or_else(|| info(None)?.max_output),
            why: &at.why,
            last: self
                .fold
                .standing
                .as_ref()
                .map(|standing| (standing.told.message.id, &*standing.details)),
            windows: &windows,
        };
        Some(look(&*policy, &context))
    }
}

impl Occasion<'_> {
    fn asked(instructions: Option<Arc<str>>) -> Self {
        Occasion { why: CompactionCause::Asked { instructions }, model: None, also: 0 }
    }
}
