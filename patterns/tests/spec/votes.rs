//! [`Votes`]: a pattern that asks several times in detached requests and adds the most frequent
//! answer to the conversation.

use loopwright_core::message::{AssistantMessage, ContentPart};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

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
                let reply = step.ask_with(Ask::detached()).await?;
                if reply.should_stop() {
                    return reply.finish();
                }
                if reply.message().is_some() {
                    votes.push(reply.text());
                    step.set_state("votes", votes)?;
                }
                continue;
            }
            let count = |vote: &&String| votes.iter().filter(|other| other == vote).count();
            let text = votes.iter().rev().max_by_key(count).cloned().unwrap_or_default();
            let text = ContentPart::Text { text, signature: None };
            step.set_state("votes", ())?;
            step.remember(AssistantMessage::new(vec![text])).await?;
        }
    }
}

/// Asks several times at once, and finds the replies under their keys.
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
        let text = ContentPart::Text { text: votes.join(", "), signature: None };
        step.remember(AssistantMessage::new(vec![text])).await?;
        Ok(StepEnd::Done)
    }
}
