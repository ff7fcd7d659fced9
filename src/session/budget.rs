//! The budgets that every request is checked against: those of the run, those of the session, and
//! those of a sub-agent.

use std::time::Duration;

use crate::error::StepError;
use crate::limits::{Budget, Limit, LimitReached, Spent};
use crate::log::turn::{Account, Estimate};
use crate::model::ChatModel;
use crate::session::Session;

/// A budget of a run, a session or a sub-agent, and what was spent of it.
struct Checked {
    budget: Budget,
    spent: Spent,
    /// The names of its turns, tokens, cost and time.
    names: [Limit; 4],
}

/// Returns the budgets of the run, of the session, and of the sub-agent if it is one's.
fn budgets(session: &Session) -> [Checked; 3] {
    use Limit::{Cost, SessionCost, SessionTime, SessionTokens, SessionTurns};
    use Limit::{ShareCost, ShareTime, ShareTokens, ShareTurns, Tokens, Turns, WallTime};
    let fold = &session.journal.fold;
    let checked = |budget, account: &Account, names| {
        let mut spent = fold.spent_of(account);
        spent.time = spent.time.saturating_add(session.run_time());
        Checked { budget, spent, names }
    };
    let of_session = [SessionTurns, SessionTokens, SessionCost, SessionTime];
    let of_share = [ShareTurns, ShareTokens, ShareCost, ShareTime];
    let share = session.tree.share.unwrap_or_default();
    [
        checked(session.config.limits.budget(), &fold.spent, [Turns, Tokens, Cost, WallTime]),
        checked(session.config.session_limits, &fold.total, of_session),
        checked(share, &fold.total, of_share),
    ]
}

/// Fails unless the prices of the model are known or no budget needs them.
pub(crate) fn check_prices(session: &Session, model: &dyn ChatModel) -> Result<(), StepError> {
    let config = &session.config;
    let share = session.tree.share.and_then(|share| share.cost);
    let has_budget = config.limits.cost.or(config.session_limits.cost).or(share).is_some();
    if has_budget && model.info().prices.is_none() {
        return Err(StepError::NoPrices(model.info().id.clone()));
    }
    Ok(())
}

/// Fails unless requests of this many turns and this estimate may be sent. Without turns, the
/// requests have been reserved before: only what was spent meanwhile is checked.
pub(crate) fn check(session: &Session, turns: u32, estimate: Estimate) -> Result<(), StepError> {
    let refuse = |reached: LimitReached| Err(StepError::Limit(reached));
    let cost = estimate.cost.unwrap_or_default();
    for Checked { budget, spent, names } in budgets(session) {
        if let Some(max) = budget.turns
            && spent.turns.saturating_add(turns) > max
        {
            return refuse(LimitReached::turns(names[0], max, spent.turns, turns));
        }
        if let Some(max) = budget.tokens
            && (spent.tokens.saturating_add(estimate.tokens) > max
                || turns > 0 && spent.tokens >= max)
        {
            return refuse(LimitReached::tokens(names[1], max, spent.tokens, estimate.tokens));
        }
        if let Some(max) = budget.cost
            && (spent.cost + cost > max || turns > 0 && spent.cost >= max)
        {
            return refuse(LimitReached::cost(names[2], max, spent.cost, cost));
        }
    }
    Ok(())
}

/// Returns what was spent since the last request of the user.
pub(crate) fn spent(session: &Session) -> Spent {
    let [run, ..] = budgets(session);
    run.spent
}

/// Returns what the session has spent.
pub(crate) fn session_spent(session: &Session) -> Spent {
    let [_, all, _] = budgets(session);
    all.spent
}

/// Returns what is left: of the budgets of the run, the session and the sub-agent, the smallest.
pub(crate) fn left(session: &Session) -> Budget {
    let [run, all, share] = budgets(session).map(|checked| checked.budget.left(&checked.spent));
    run.min(&all).min(&share)
}

/// Returns the time that is left, or `None` if it is not limited.
pub(crate) fn time_left(session: &Session) -> Option<Duration> {
    left(session).time
}

/// Returns the error of a run whose time is up.
pub(crate) fn time_is_up(session: &Session) -> StepError {
    let left = |checked: &Checked| checked.budget.left(&checked.spent).time;
    let [run, all, share] = budgets(session);
    let less = |a: Checked, b: Checked| match (left(&a), left(&b)) {
        (Some(x), Some(y)) if y < x => b,
        (None, Some(_)) => b,
        _ => a,
    };
    let Checked { budget, spent, names } = less(less(run, all), share);
    let max = budget.time.unwrap_or(spent.time);
    StepError::Limit(LimitReached::time(names[3], max, spent.time))
}
