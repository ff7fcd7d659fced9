//! The budgets that every request is checked against: the run's, the session's, a sub-agent's, and
//! those that parts of the work have.

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::FutureExt;

use crate::error::StepError;
use crate::event::outcome::RunCause;
use crate::limits::{Budget, Limit, LimitReached, Limits, Resource, Spent, WrapUp};
use crate::log::turn::Estimate;
use crate::model::ModelInfo;
use crate::session::Session;
use crate::session::budget_part::Part;
use crate::session::part_time;
use crate::session::request::estimate::{Needed, estimate_of_answer};
use crate::session::request::in_flight::HeldBudget;
use crate::session::request::stream::follow;

/// A budget of a run, a session, a sub-agent or a part of the work, and its usage.
struct Checked {
    budget: Budget,
    spent: Spent,
    /// The needs of later requests.
    kept: Spent,
    /// The limit to report for a resource.
    limit: fn(Resource) -> Limit,
}

impl Checked {
    fn left(&self) -> Budget {
        self.budget.left(&self.spent).left(&self.kept)
    }

    /// Returns whether the expected output of a request must fit too.
    fn must_fit_output(&self) -> bool {
        let is_divided = matches!((self.limit)(Resource::Turns), Limit::Share(_) | Limit::Part(_));
        is_divided || self.kept.turns > 0
    }
}

/// Returns the budgets of the run and the session, and the share of the sub-agent, which is
/// unlimited at the root. The answer at the limit is kept, if there is one.
fn wholes(session: &Session, kept: Spent) -> [Checked; 3] {
    let Limits { run, session: all, .. } = session.config.limits;
    let (spent, all_spent) = (session.spent(), session.whole_spent());
    let share = session.tree.share.unwrap_or_default();
    [
        Checked { budget: run, spent, kept, limit: Limit::Run },
        Checked { budget: all, spent: all_spent, kept, limit: Limit::Session },
        Checked { budget: share, spent: all_spent, kept, limit: Limit::Share },
    ]
}

/// Returns the budgets of parts of the work.
fn of_parts(session: &Session, parts: &[Part]) -> impl Iterator<Item = Checked> {
    let now = parts.first().map(|_| session.spent()).unwrap_or_default();
    parts.iter().map(move |part| Checked {
        budget: part.budget,
        spent: part.spent(&now),
        kept: needs_of(session, part.kept, 0),
        limit: Limit::Part,
    })
}

/// Returns what so many requests need that come after the next turn, with an instruction of this
/// many bytes. Their time is not in it.
fn needs_of(session: &Session, requests: u32, instruction: usize) -> Spent {
    if requests == 0 {
        return Spent::default();
    }
    let needed = estimate_of_answer(session, instruction);
    Spent {
        turns: requests,
        tokens: needed.tokens.saturating_mul(requests.into()),
        cost: needed.cost.unwrap_or_default() * f64::from(requests),
        ..Spent::default()
    }
}

/// Returns how the run answers at a limit, if it does. A run that only compacts does not.
pub(crate) fn wrap_up(session: &Session) -> Option<&WrapUp> {
    let only_compacts = matches!(session.journal.state.cause, Some(RunCause::Compact { .. }));
    session.config.limits.wrap_up.as_ref().filter(|_| !only_compacts)
}

/// Returns all budgets that a request must fit into, without what is kept of the whole run.
fn budgets(session: &Session, kept: Spent) -> impl Iterator<Item = Checked> {
    wholes(session, kept).into_iter().chain(of_parts(session, &session.budget_parts))
}

/// Returns what the answer at the limit needs, if there is one: nothing before the first reply to
/// the user's request, and for the answer itself. The time is not in it.
fn kept(session: &Session) -> Spent {
    let state = &session.journal.state;
    let has_replied = state.spent.turns > 0 && state.last_reply().is_some();
    let Some(wrap_up) = wrap_up(session).filter(|_| has_replied && !session.wraps_up) else {
        return Spent::default();
    };
    needs_of(session, 1, wrap_up.instruction.len())
}

/// Fails unless the prices of the model are known or no budget needs them.
pub(crate) fn check_prices(session: &Session, model: &ModelInfo) -> Result<(), StepError> {
    let mut all = budgets(session, Spent::default());
    if model.prices.is_none() && all.any(|checked| checked.budget.cost.is_some()) {
        return Err(StepError::NoPrices(model.id.clone()));
    }
    Ok(())
}

/// Fails unless requests of this many turns, with these needs, may be sent. With zero turns, the
/// requests are already reserved, and only the usage since then is checked.
///
/// The input must fit. In the share of a sub-agent the output must fit too, because sub-agents work
/// at the same time, and in a part of the work, because something follows it. So it must where room
/// is kept for the answer at the limit, whose input has it.
pub(crate) fn check(session: &Session, turns: u32, needed: Needed) -> Result<(), StepError> {
    let refuse = |reached: LimitReached| Err(StepError::Limit(reached));
    for checked in budgets(session, kept(session)) {
        let estimate = if checked.must_fit_output() { needed.all() } else { needed.input };
        let Checked { budget, spent, limit, kept } = checked;
        let tokens = estimate.tokens.saturating_add(kept.tokens);
        let cost = estimate.cost.unwrap_or_default() + kept.cost;
        if let Some(max) = budget.turns
            && turns > 0
            && spent.turns.saturating_add(turns).saturating_add(kept.turns) > max
        {
            let limit = limit(Resource::Turns);
            return refuse(LimitReached::turns(limit, max, spent.turns, (turns, kept.turns)));
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
    part_time::check(session)
}

/// Returns whether the output of one more request fits beside the outputs in progress. Without any,
/// it always fits: the last request may exceed a budget by its output. The outputs may use the room
/// of reserved requests that can still be given up.
pub(crate) fn fits_beside(session: &Session, needed: Needed, to_give_up: Estimate) -> bool {
    let Some(mut output) = session.in_flight.output() else { return true };
    output.add(needed.output);
    let cost = output.cost.unwrap_or_default();
    budgets(session, kept(session)).all(|Checked { budget, spent, kept, .. }| {
        let spent = Spent {
            tokens: spent.tokens.saturating_sub(to_give_up.tokens),
            cost: spent.cost - to_give_up.cost.unwrap_or_default(),
            ..spent
        };
        let left = budget.left(&spent).left(&kept);
        left.tokens.is_none_or(|left| output.tokens <= left)
            && left.cost.is_none_or(|left| cost <= left)
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
/// requests in progress, without the reserved ones that can still be given up, and into the shared
/// budget. Waits for other sessions if this one has no request in progress.
pub(crate) async fn admit(
    session: &mut Session,
    needed: Needed,
    to_give_up: Estimate,
) -> Result<Admission, StepError> {
    if !fits_beside(session, needed, to_give_up) {
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

/// Returns the rest of the budgets: for each limit the smallest of run, session, sub-agent and
/// these parts of the work, without what the answer at the limit needs.
pub(crate) fn left(session: &Session, parts: &[Part]) -> Budget {
    let [run, all, share] = wholes(session, kept(session)).map(|checked| checked.left());
    let left = run.min(&all).min(&share);
    let time = left.time.map(|time| time.saturating_sub(session.kept_time));
    let whole = Budget { time, ..left };
    of_parts(session, parts).fold(whole, |left, part| left.min(&part.left()))
}

/// Returns the part of the rest of the time that is kept for the answer at the limit, if there is
/// one.
pub(crate) fn time_to_keep(session: &Session) -> Duration {
    match (wrap_up(session), time_left(session)) {
        (Some(wrap_up), Some(left)) => wrap_up.time.min(left / 4),
        _ => Duration::ZERO,
    }
}

/// Returns the time that is left to the run, or `None` if it is unlimited.
pub(crate) fn time_left(session: &Session) -> Option<Duration> {
    left(session, &[]).time
}

/// Returns the error of a run whose time is up.
pub(crate) fn time_is_up(session: &Session) -> StepError {
    let [run, all, share] = wholes(session, Spent::default());
    let less = |a: Checked, b: Checked| match (a.left().time, b.left().time) {
        (Some(x), Some(y)) if y < x => b,
        (None, Some(_)) => b,
        _ => a,
    };
    let Checked { budget, spent, limit, .. } = less(less(run, all), share);
    let max = budget.time.unwrap_or(spent.time);
    StepError::Limit(LimitReached::time(limit(Resource::Time), max, spent.time))
}
