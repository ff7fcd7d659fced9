//! The limits that every request is checked against.

use crate::error::StepError;
use crate::limits::Limit;
use crate::model::ChatModel;
use crate::session::Session;

/// Fails unless a request may be sent, with `more` requests after it.
pub(crate) fn check(session: &Session, model: &dyn ChatModel, more: u32) -> Result<(), StepError> {
    let limits = &session.config.limits;
    let fold = &session.journal.fold;
    let spent = &fold.spent;
    let turn = fold.turn.number + u32::from(!fold.turn.open) + spent.detached;
    if turn.saturating_add(more) > limits.turns {
        return Err(StepError::Limit(Limit::Turns));
    }
    if limits.tokens.is_some_and(|max| spent.usage.total() >= max) {
        return Err(StepError::Limit(Limit::Tokens));
    }
    match limits.cost {
        Some(_) if model.info().prices.is_none() => {
            Err(StepError::NoPrices(model.info().id.clone()))
        }
        Some(max) if spent.cost >= max => Err(StepError::Limit(Limit::Cost)),
        _ => Ok(()),
    }
}
