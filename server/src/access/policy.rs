//! [`AccessPolicy`]: the rights of callers, and the default policy.

use async_trait::async_trait;
use loopwright_core::Principal;
use loopwright_core::log::{PendingAction, SessionInfo};
use loopwright_host::SessionSettings;

use super::caller::Caller;

/// The role that may read all sessions.
const READER: &str = "reader";
/// The role that may decide the actions of all sessions.
const APPROVER: &str = "approver";

/// The right that a request needs. A sub-agent's session counts as its root session.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Access<'a> {
    /// Creating a session, or starting a chat request, with these settings.
    Create(&'a SessionSettings),
    /// Reading a session: its events, messages and settings.
    Read(&'a SessionInfo),
    /// Changing a session: prompts, steers, follow-ups, continuing, aborting, compacting.
    Change(&'a SessionInfo),
    /// Deciding a pending action of a session. A caller who may decide an action may see it.
    Decide(&'a SessionInfo, &'a PendingAction),
    /// Deleting a session.
    Delete(&'a SessionInfo),
    /// Reading `/metrics`: names of agents, models and tools, and the usage of all sessions.
    Metrics,
}

/// The policy that decides what callers may do. The default is [`OwnerPolicy`].
///
/// ```
/// use async_trait::async_trait;
/// use loopwright_server::{Access, AccessPolicy, Caller, OwnerPolicy};
///
/// /// Nobody deletes a session, and the finance team sees all of them.
/// struct Kept;
///
/// #[async_trait]
/// impl AccessPolicy for Kept {
///     async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool {
///         match access {
///             Access::Delete(_) => false,
///             Access::Read(_) if caller.has_role("finance") => true,
///             _ => OwnerPolicy.allows(caller, access).await,
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait AccessPolicy: Send + Sync {
    /// Returns whether the caller has this right. The server calls it for each request, and for
    /// each session and action of a list. It does not ask about the [operator](Caller::operator).
    ///
    /// To a caller without the right to read a session, the session does not exist. With that
    /// right, the refusal says that the right they need is missing. Both are logged.
    async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool;

    /// Returns the only principal whose sessions the caller may read, so that lists can skip all
    /// others. Defaults to `None`: each session of a list is checked.
    fn only_owner(&self, caller: &Caller) -> Option<Principal> {
        let _ = caller;
        None
    }
}

/// The default policy. Callers may do everything with their own sessions, and nothing with the
/// sessions of others, except for these roles:
///
/// - `admin` may do everything,
/// - `reader` may read all sessions, and the metrics,
/// - `approver` may decide the actions of all sessions.
///
/// An action that names roles is decided by callers with one of them, whoever owns the session, and
/// by `admin`. Sessions without an owner, such as the terminal app's, belong to `admin` and the
/// operator. Everyone may create sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnerPolicy;

#[async_trait]
impl AccessPolicy for OwnerPolicy {
    async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool {
        let owns =
            |info: &SessionInfo| info.owner.is_some() && info.owner.as_ref() == caller.named();
        caller.is_admin()
            || match access {
                Access::Create(_) => true,
                Access::Read(info) => owns(info) || caller.has_role(READER),
                Access::Metrics => caller.has_role(READER),
                Access::Change(info) | Access::Delete(info) => owns(info),
                Access::Decide(info, action) => match &*action.action.terms.roles {
                    [] => owns(info) || caller.has_role(APPROVER),
                    roles => roles.iter().any(|role| caller.has_role(role)),
                },
            }
    }

    fn only_owner(&self, caller: &Caller) -> Option<Principal> {
        let reads_all = caller.is_admin() || caller.has_role(READER);
        caller.named().filter(|_| !reads_all).cloned()
    }
}
