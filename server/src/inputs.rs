//! Checked inputs for sessions, on behalf of a caller.

pub(crate) mod images;

use loopwright_core::Principal;
use loopwright_core::agent::InputError;
use loopwright_core::event::{ActionResult, Input, InputEvent, Prompt};
use loopwright_core::log::{LogEntry, SessionInfo};
use loopwright_core::message::{Content, InputId};

use crate::access::{Caller, check_decide};
use crate::error::{ApiError, ErrorKind};
use crate::limits::quota::Client;
use crate::server::Server;

/// Maximum length of a result's excerpt in an error, in characters.
const MAX_RESULT_CHARS: usize = 200;

/// Checks that the daily budget of this principal is not used up.
pub(crate) async fn check_budget(
    server: &Server,
    owner: Option<&Principal>,
) -> Result<(), ApiError> {
    match owner {
        Some(owner) => server.shared().daily_budget.check(owner).await,
        None => Ok(()),
    }
}

/// Checks that the model of a session accepts the content of a message.
pub(crate) async fn check_content(
    server: &Server,
    id: &str,
    prompt: Prompt,
) -> Result<Prompt, ApiError> {
    let is_image = |content: &Content| matches!(content, Content::Image { .. });
    if prompt.message.content.iter().any(is_image) {
        images::check_number(&prompt.message.content)?;
        server.shared().live.check_takes_images(id).await?;
    }
    Ok(prompt)
}

/// Sends a decision to a session, if the caller may decide the action. The log records the caller
/// and the client, whatever `result` contains. `input` is the client's id of the input.
///
/// # Errors
/// Fails if the action is not pending, or has another digest. A decision whose id the session
/// already has is accepted and changes nothing.
pub(crate) async fn resolve_action(
    server: &Server,
    caller: &Caller,
    client: Client,
    session: &str,
    mut result: ActionResult,
    input: Option<InputId>,
) -> Result<InputId, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let call = result.call.clone();
    let is_pending = check_decide(server, caller, session, &call, &result.digest).await?;
    result.by = caller.decides_as(shared.users.has_others()).map(Into::into);
    result.source = Some(match client.0 {
        Some(address) => format!("http from {address}").into(),
        None => "http".into(),
    });
    if !is_pending {
        let entries = shared.store.read(session, 0).await?;
        let is_known = |id: &InputId| entries.iter().any(|entry| entry.input() == Some(id));
        return match input.filter(is_known) {
            Some(input) => Ok(input), // sent twice
            None if is_pending_in(&entries, &call) => Err(InputError::DigestDiffers(call).into()),
            None => Err(not_pending(&entries, &call)),
        };
    }
    let event = InputEvent::ExternalActionResult(result);
    match shared.live.send(session, Some(client), Input { id: input, event }).await? {
        Err(InputError::NotPending(_)) => {
            Err(not_pending(&shared.store.read(session, 0).await?, &call))
        }
        sent => Ok(sent?),
    }
}

fn is_pending_in(entries: &[LogEntry], call: &str) -> bool {
    SessionInfo::of("", entries).pending.iter().any(|pending| *pending.action.call == *call)
}

/// Returns the error for a call that is not pending. It names the decision and its author, if the
/// log has them.
fn not_pending(entries: &[LogEntry], call_id: &str) -> ApiError {
    let mut why = None;
    for entry in entries {
        match entry {
            LogEntry::Decided { call, decision, by, .. } if **call == *call_id => {
                let by = by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
                why = Some(format!("was already resolved with `{}`{by}", decision.name()));
            }
            LogEntry::CallFinished { result } => {
                let result = result.as_tool_result().filter(|result| *result.call == *call_id);
                if let (None, Some(result)) = (&why, result) {
                    why = Some(format!("already has a result: {}", beginning(&result.text())));
                }
            }
            LogEntry::CallStarted { call, .. } if **call == *call_id && why.is_none() => {
                why = Some("runs without a decision".into());
            }
            _ => {}
        }
    }
    match why {
        Some(why) => ApiError::new(
            ErrorKind::Conflict,
            format!("The call `{call_id}` {why}. Nothing was changed."),
        ),
        None => ApiError::new(
            ErrorKind::NotFound,
            format!("The session has no pending call `{call_id}`, and never had one."),
        ),
    }
}

/// Returns the beginning of a text's first line.
fn beginning(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(MAX_RESULT_CHARS).collect()
}
