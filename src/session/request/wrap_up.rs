//! The answer of a run at its limit; see [`WrapUp`](crate::limits::WrapUp).

use crate::error::StepError;
use crate::event::outcome::RunStatus;
use crate::limits::{Limit, LimitReached};
use crate::log::state::Tail;
use crate::message::{AssistantMessage, Message, StopReason, UserMessage};
use crate::model::ToolChoice;
use crate::session::Session;
use crate::session::close;
use crate::session::request::ask::{Ask, Profile};
use crate::session::request::{self, budget, estimate::Needed};

/// Returns the limit at which the run ends with an answer if this error ends it, else the error.
pub(crate) fn limit_to_answer(
    session: &Session,
    error: StepError,
) -> Result<LimitReached, StepError> {
    match error {
        StepError::Limit(reached)
            if reached.limit != Limit::Shared && budget::wrap_up(session).is_some() =>
        {
            Ok(reached)
        }
        error => Err(error),
    }
}

/// Returns the limit of a run that was interrupted after its last request was announced.
pub(crate) fn announced(session: &Session) -> Option<LimitReached> {
    let (_, limit) = session.journal.state.wrap_up?;
    Some(match budget::check(session, 1, Needed::default()) {
        Err(StepError::Limit(reached)) if reached.limit == limit => reached,
        _ => LimitReached::earlier(limit),
    })
}

/// Asks for the answer, unless it is there. Returns whether it is: the run then ends with the last
/// reply. Closes what is open.
pub(crate) async fn answer_at(session: &mut Session, limit: Limit) -> Result<bool, StepError> {
    let Some(wrap_up) = session.config.limits.wrap_up.clone() else { return Ok(false) };
    let state = &session.journal.state;
    if let Some((id, _)) = state.wrap_up
        && let Some(before_restart) = state.context.iter().rev().find(|m| m.id == id)
    {
        return Ok(is_answer(before_restart));
    }
    close::close_open_work(session, RunStatus::Limit).await?;
    session.cancel = session.tree.cancel.child_token(); // closing has cancelled it
    let state = &session.journal.state;
    match state.tail() {
        Tail::Empty => return Ok(false),
        Tail::Replied if state.context.last().is_some_and(|m| is_answer(m)) => return Ok(true),
        _ => {}
    }
    let message = UserMessage::from(wrap_up.message(limit));
    // The last request's tools, since some models take none, but none may be called.
    let mut ask = Ask { wrap_up: Some(limit), ..Ask::new() }.tool_choice(ToolChoice::None);
    ask.profile.tools =
        state.offered.as_ref().map(|names| names.iter().map(|name| name.to_string()).collect());
    let ask = ask.also(message).within(&Profile::new());
    let reply = request::send(session, ask).await?;
    Ok(reply.error.is_none() && reply.message.is_some_and(|message| is_answer(&message)))
}

/// Returns whether the message is a reply with text, and neither failed nor was stopped.
fn is_answer(message: &Message) -> bool {
    use StopReason::{Aborted, Error, Interrupted};
    let is_whole = |reply: &AssistantMessage| !matches!(reply.stop, Interrupted | Aborted | Error);
    message.as_assistant().is_some_and(|reply| is_whole(reply) && reply.has_text())
}
