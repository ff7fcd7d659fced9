//! The budgets that every request is checked against: the run's, the session's, and a sub-agent's.

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::FutureExt;

use crate::error::StepError;
use crate::event::outcome::RunCause;
use crate::limits::{Budget, Limit, LimitReached, Limits, Resource, Spent, WrapUp};
use crate::log::turn::Used;
use crate::model::ModelInfo;
use crate::session::Session;
use crate::session::request::estimate::{Needed, estimate_of_answer};
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

/// Returns how the run answers at a limit, if it does. A run that only compacts does not.
pub(crate) fn wrap_up(session: &Session) -> Option<&WrapUp> {
    let only_compacts = matches!(session.journal.state.cause, Some(RunCause::Compact { .. }));
    session.config.limits.wrap_up.as_ref().filter(|_| !only_compacts)
}

/// Returns what the answer at the limit needs, if there is one: nothing before the first reply to
/// the user's request, and for the answer itself. The time is not in it.
fn kept(session: &Session) -> Spent {
    let state = &session.journal.state;
    let has_replied = state.spent.turns > 0 && state.last_reply().is_some();
    let Some(wrap_up) = wrap_up(session).filter(|_| has_replied && !session.wraps_up) else {
        return Spent::default();
    };
    let needed = estimate_of_answer(session, wrap_up.instruction.len());
    Spent {
        turns: 1,
        tokens: needed.tokens,
        cost: needed.cost.unwrap_or_default(),
        ..Spent::default()
    }
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
/// at the same time. So it must where room is kept for the answer at the limit, whose input has it.
pub(crate) fn check(session: &Session, turns: u32, needed: Needed) -> Result<(), StepError> {
    let refuse = |reached: LimitReached| Err(StepError::Limit(reached));
    // Requests that are reserved already were checked beside the answer at the limit.
    let kept = if turns > 0 { kept(session) } else { Spent::default() };
    for Checked { budget, spent, limit } in budgets(session) {
        let is_share = matches!(limit(Resource::Turns), Limit::Share(_));
        let estimate = if is_share || kept.turns > 0 { needed.all() } else { needed.input };
        let tokens = estimate.tokens.saturating_add(kept.tokens);
        let cost = estimate.cost.unwrap_or_default() + kept.cost;
        if let Some(max) = budget.turns
            && spent.turns.saturating_add(turns).saturating_add(kept.turns) > max
        {
            return refuse(LimitReached::turns(limit(Resource::Turns), max, spent.turns, turns));
        }
        if let Some(max) = budget.tokens
            && (spent.tokens.saturating_add(tokens) > max || turns > 0 && spent.tokens >= max)
        {
            let limit = limit(Resource::Tokens);
            return refuse(LimitReached::tokens(limit, max, spent.tokens, tokens));
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

/// Returns the rest of the budgets: for each limit the smallest of run, session and sub-agent,
/// without what the answer at the limit needs.
pub(crate) fn left(session: &Session) -> Budget {
    let kept = kept(session);
    let left = |Checked { budget, spent, .. }: Checked| budget.left(&spent).left(&kept);
    let [run, all, share] = budgets(session).map(left);
    let left = run.min(&all).min(&share);
    Budget { time: left.time.map(|time| time.saturating_sub(session.kept_time)), ..left }
}

/// Returns the part of the rest of the time that is kept for the answer at the limit, if there is
/// one.
pub(crate) fn time_to_keep(session: &Session) -> Duration {
    match (wrap_up(session), left(session).time) {
        (Some(wrap_up), Some(left)) => wrap_up.time.min(left / 4),
        _ => Duration::ZERO,
    }
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
