//! The budgets that every request is checked against: the run's, the session's, and a sub-agent's.

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::FutureExt;

use crate::error::StepError;
use crate::limits::{Budget, Limit, LimitReached, Limits, Resource, Spent};
use crate::log::turn::Used;
use crate::model::ModelInfo;
use crate::session::Session;
use crate::session::request::estimate::Needed;
use crate::session::request::in_flight::HeldBudget;
use crate::session::request::stream::follow;

/// A budget of a run, a session or a sub-agent, and its usage.
struct Checked {
    budget: Budget,
    spent: Spent,
    /// The limit to report for a resource.
    limit: fn(Resource) -> Limit,
}

/// Returns the budgets of the run and the session, and the share of the sub-agent, which is
/// unlimited at the root.
fn budgets(session: &Session) -> [Checked; 3] {
    let state = &session.journal.state;
    let checked = |budget, used: Used, limit: fn(Resource) -> Limit| {
        let mut spent = state.spent_of(used);
        spent.time = spent.time.saturating_add(session.run_time());
        Checked { budget, spent, limit }
    };
    let Limits { run, session: all, .. } = session.config.limits;
    [
        checked(run, state.spent, Limit::Run),
        checked(all, state.total(), Limit::Session),
        checked(session.tree.share.unwrap_or_default(), state.total(), Limit::Share),
    ]
}

/// Fails unless the prices of the model are known or no budget needs them.
pub(crate) fn check_prices(session: &Session, model: &ModelInfo) -> Result<(), StepError> {
    let Limits { run, session: all, .. } = session.config.limits;
    let share = session.tree.share.unwrap_or_default();
    if run.min(&all).min(&share).cost.is_some() && model.prices.is_none() {
        return Err(StepError::NoPrices(model.id.clone()));
    }
    Ok(())
}

/// Fails unless requests of this many turns, with these needs, may be sent. With zero turns, the
/// requests are already reserved, and only the usage since then is checked.
///
/// The input must fit. In the share of a sub-agent the output must fit too, because sub-agents work
/// at the same time.
pub(crate) fn check(session: &Session, turns: u32, needed: Needed) -> Result<(), StepError> {
    let refuse = |reached: LimitReached| Err(StepError::Limit(reached));
    for Checked { budget, spent, limit } in budgets(session) {
        let is_share = matches!(limit(Resource::Turns), Limit::Share(_));
        let estimate = if is_share { needed.all() } else { needed.input };
        let cost = estimate.cost.unwrap_or_default();
        if let Some(max) = budget.turns
            && spent.turns.saturating_add(turns) > max
        {
            return refuse(LimitReached::turns(limit(Resource::Turns), max, spent.turns, turns));
        }
        if let Some(max) = budget.tokens
            && (spent.tokens.saturating_add(estimate.tokens) > max
                || turns > 0 && spent.tokens >= max)
        {
            return refuse(LimitReached::tokens(
                limit(Resource::Tokens),
                max,
                spent.tokens,
                estimate.tokens,
            ));
        }
        if let Some(max) = budget.cost
            && (spent.cost + cost > max || turns > 0 && spent.cost >= max)
        {
            return refuse(LimitReached::cost(limit(Resource::Cost), max, spent.cost, cost));
        }
    }
    Ok(())
}

/// Returns whether the output of one more request fits beside the outputs in progress. Without any,
/// it always fits: the last request may exceed a budget by its output.
pub(crate) fn fits_beside(session: &Session, needed: Needed) -> bool {
    let Some(mut output) = session.in_flight.output() else { return true };
    output.add(needed.output);
    budgets(session).iter().all(|Checked { budget, spent, .. }| {
        budget.tokens.is_none_or(|max| spent.tokens.saturating_add(output.tokens) <= max)
            && budget.cost.is_none_or(|max| spent.cost + output.cost.unwrap_or_default() <= max)
    })
}

/// The decision on a request that is about to be sent.
pub(crate) enum Admission {
    Admitted(HeldBudget),
    /// Others in progress must end first.
    Later,
    /// A steer interrupts the request.
    Interrupted,
}

/// Decides whether a request with checked or reserved input may be sent now. It must fit beside the
/// requests in progress, and into the shared budget. Waits for other sessions if this one has no
/// request in progress.
pub(crate) async fn admit(session: &mut Session, needed: Needed) -> Result<Admission, StepError> {
    if !fits_beside(session, needed) {
        return Ok(Admission::Later);
    }
    let mut held = HeldBudget { output: needed.output, permit: None };
    let Some(shared) = session.tree.shared_budget.clone() else {
        return Ok(Admission::Admitted(held));
    };
    session.journal.flush().await?; // a reply that is not written holds its permit
    let (id, estimate) = (session.id.clone(), needed.all());
    let may_wait = session.in_flight.output().is_none();
    let reserving = async move {
        match may_wait {
            true => shared.reserve(&id, estimate).await.map(Some),
            false => shared.try_reserve(&id, estimate).await,
        }
    };
    let mut reserving = reserving.boxed().into_stream();
    let reserved = follow(session, &mut reserving, |_, reserved| match reserved {
        Some(reserved) => ControlFlow::Break(reserved),
        None => ControlFlow::Break(Ok(None)),
    });
    Ok(match reserved.await? {
        None => Admission::Interrupted,
        Some(reserved) => match reserved? {
            None => Admission::Later,
            permit => {
                held.permit = permit;
                Admission::Admitted(held)
            }
        },
    })
}

/// Returns the usage since the last request of the user.
pub(crate) fn spent(session: &Session) -> Spent {
    let [run, ..] = budgets(session);
    run.spent
}

/// Returns the usage of the session.
pub(crate) fn session_spent(session: &Session) -> Spent {
    let [_, all, _] = budgets(session);
    all.spent
}

/// Returns the rest of the budgets: for each limit the smallest of run, session and sub-agent.
pub(crate) fn left(session: &Session) -> Budget {
    let [run, all, share] = budgets(session).map(|checked| checked.budget.left(&checked.spent));
    run.min(&all).min(&share)
}

/// Returns the time that is left, or `None` if it is unlimited.
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
    let Checked { budget, spent, limit } = less(less(run, all), share);
    let max = budget.time.unwrap_or(spent.time);
    StepError::Limit(LimitReached::time(limit(Resource::Time), max, spent.time))
}
