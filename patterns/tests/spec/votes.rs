//! [`Votes`]: a pattern that asks several times in detached requests and adds the most frequent
//! answer to the conversation.

use loopwright_core::message::AssistantMessage;
use loopwright_core::{Ask, BehaviorPattern, Reply, StepContext, StepEnd, StepError, async_trait};

pub(crate) struct Votes(pub(crate) usize);

#[async_trait]
impl BehaviorPattern for Votes {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            if step.has_messages() {
                step.set_state("votes", ())?;
                step.take_messages().await?;
            }
            if step.history().last().is_some_and(|message| message.as_assistant().is_some()) {
                return Ok(StepEnd::Done);
            }
            let mut votes: Vec<String> = step.state("votes").unwrap_or_default();
            if votes.len() < self.0 {
                let reply = step.ask_with(Ask::detached()).await?.or_end()?;
                if reply.message().is_some() {
                    votes.push(reply.text());
                    step.set_state("votes", votes)?;
                }
                continue;
            }
            let count = |vote: &&String| votes.iter().filter(|other| other == vote).count();
            let text = votes.iter().rev().max_by_key(count).cloned().unwrap_or_default();
            step.set_state("votes", ())?;
            step.remember(AssistantMessage::from(text)).await?;
        }
    }
}

/// A pattern that asks several times at once, with keys or without.
pub(crate) struct ParallelVotes {
    pub(crate) has_keys: bool,
    pub(crate) hides_errors: bool,
}

#[async_trait]
impl BehaviorPattern for ParallelVotes {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            if step.is_answered() {
                step.take_messages().await?;
            }
            if step.is_answered() {
                return Ok(StepEnd::Done);
            }
            let ask = |n: usize| match self.has_keys {
                true => Ask::detached().key(format!("vote-{n}")),
                false => Ask::detached(),
            };
            let replies = step.ask_all((0..3).map(ask)).await?.into_iter().map(Reply::or_end);
            let votes: Result<Vec<Reply>, StepError> = match self.hides_errors {
                true => Ok(replies.flatten().collect()),
                false => replies.collect(),
            };
            let votes: Vec<String> = votes?.iter().map(Reply::text).collect();
            step.remember(AssistantMessage::from(votes.join(", "))).await?;
        }
    }
}

/// A pattern that asks several times at once, and finds the replies under their keys.
pub(crate) struct KeyedVotes(pub(crate) usize);

#[async_trait]
impl BehaviorPattern for KeyedVotes {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        if step.history().last().is_some_and(|message| message.as_assistant().is_some()) {
            return Ok(StepEnd::Done);
        }
        let ask = |n: usize| Ask::detached().key(format!("vote-{n}"));
        let replies = step.ask_all((0..self.0).map(ask)).await?;
        if let Some(failed) = replies.iter().find(|reply| reply.should_stop()) {
            return failed.clone().finish();
        }
        let votes: Vec<String> = replies.iter().map(|reply| reply.text()).collect();
        step.remember(AssistantMessage::from(votes.join(", "))).await?;
        Ok(StepEnd::Done)
    }
}
