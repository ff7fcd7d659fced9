//! [`AccessPolicy`]: what callers may do, and the default policy.

use async_trait::async_trait;
use loopwright_core::agent::Principal;
use loopwright_core::log::{PendingAction, SessionInfo};

use super::caller::Caller;
use crate::settings::SessionSettings;

/// The role of those who may read all sessions.
const READER: &str = "reader";
/// The role of those who may decide the actions of all sessions.
const APPROVER: &str = "approver";

/// Says what a caller wants to do. A session of a sub-agent is that of its root.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Access<'a> {
    /// Create a session, or start a chat request, with these settings.
    Create(&'a SessionSettings),
    /// Read a session: its events, messages and settings.
    Read(&'a SessionInfo),
    /// Change a session: send prompts, steers and follow-ups, continue, abort, compact.
    Change(&'a SessionInfo),
    /// Decide a pending action of a session. Whoever may decide an action may see it.
    Decide(&'a SessionInfo, &'a PendingAction),
    /// Delete a session.
    Delete(&'a SessionInfo),
    /// Read `/metrics`: names of agents, models and tools, and what all sessions have used.
    Metrics,
}

/// Decides what callers may do. The default is [`OwnerPolicy`].
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
    /// Returns whether the caller may do this. It is called for each request, and for each session
    /// and action of a list. The [operator](Caller::operator) is not asked about.
    ///
    /// A session that a caller may not read does not exist for them. Where they may read it, a
    /// refusal says that they may not do what they want. Both are logged.
    async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool;

    /// Returns the principal whose sessions are the only ones that the caller may read, so that
    /// lists need not look at others. Defaults to `None`: each session of a list is asked about.
    fn only_owner(&self, caller: &Caller) -> Option<Principal> {
        let _ = caller;
        None
    }
}

/// Lets callers do everything with their own sessions, and nothing with those of others, except for
/// these roles:
///
/// - `admin` may do everything,
/// - `reader` may read all sessions, and the metrics,
/// - `approver` may decide the actions of all sessions.
///
/// An action that names roles is decided by callers with one of them, whoever owns the session, and
/// by `admin`.
/// Sessions without an owner, such as those of the terminal app, are those of `admin` and of the
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
