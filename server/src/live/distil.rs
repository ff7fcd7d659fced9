//! Distillation of facts from a session before it is closed, if its settings ask for it.

use std::sync::Arc;

use loopwright_core::event::InputEvent;
use loopwright_core::{AgentHandle, Principal, SessionStore};
use loopwright_host::Agents;
use loopwright_memory::long_term::{DISTIL_COMMAND, is_distil_due};

use crate::error::ApiError;
use crate::limits::daily_budget::DailyBudget;
use crate::limits::run_quota::{RunPermit, RunQuota};

/// Starts a run that distils facts, and returns its permit. Returns `None` if there is nothing to
/// distil.
pub(super) async fn start(
    handle: &AgentHandle,
    agents: &Agents,
    store: &Arc<dyn SessionStore>,
    principal: Option<&Principal>,
    runs: &RunQuota,
    daily_budget: &DailyBudget,
) -> Result<Option<RunPermit>, ApiError> {
    let state = handle.state().await?;
    let settings = agents.stored_settings(state.settings.as_deref());
    if !agents.distils_at_end(&settings) || !is_distil_due(&state) {
        return Ok(None);
    }
    let owner = store.session(&state.session_key).await?.owner;
    if owner.is_none() && principal.is_none() {
        return Ok(None); // the facts would belong to nobody
    }
    if let Some(owner) = &owner {
        daily_budget.check(owner).await?;
    }
    let permit = RunPermit::new(handle.clone(), runs.acquire_unchecked());
    handle.send(InputEvent::UserRequest(DISTIL_COMMAND.into())).await?;
    Ok(Some(permit))
}
