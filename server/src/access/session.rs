//! Extractors for the caller of a request and for [`SessionFor`], a session of a path that the
//! caller may use; and access checks for other requests.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use loopwright_core::log::{DecisionRecord, MemoryError, PendingAction, SessionInfo};
use loopwright_core::{Principal, SessionStore};
use loopwright_host::SessionSettings;

use super::caller::Caller;
use super::name::check_name;
use super::path::SessionId;
use super::policy::Access;
use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// The right that a route needs for a session.
pub(crate) trait Right {
    fn access(session: &SessionInfo) -> Access<'_>;
}

/// The right to read a session.
pub(crate) struct Read;
/// The right to send a session inputs.
pub(crate) struct Change;
/// The right to delete a session.
pub(crate) struct Delete;

impl Right for Read {
    fn access(session: &SessionInfo) -> Access<'_> {
        Access::Read(session)
    }
}

impl Right for Change {
    fn access(session: &SessionInfo) -> Access<'_> {
        Access::Change(session)
    }
}

impl Right for Delete {
    fn access(session: &SessionInfo) -> Access<'_> {
        Access::Delete(session)
    }
}

/// A session of a path, extracted if the caller has the right `R` to it.
pub(crate) struct SessionFor<R> {
    pub(crate) id: String,
    pub(crate) caller: Caller,
    /// The session's owner, if the caller is not the operator.
    pub(crate) owner: Option<Principal>,
    right: PhantomData<R>,
}

impl FromRequestParts<Server> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Response> {
        let caller = caller_of(&parts.extensions, server).map_err(IntoResponse::into_response)?;
        Ok(caller.traced(server.shared().telemetry.trace(&parts.headers)))
    }
}

/// Returns the caller of a request from its extensions. The guard of a served server, or a layer of
/// the host, has inserted a caller or a principal there. Without either, the caller is the
/// operator.
///
/// # Errors
/// Refuses a principal without a valid name. The host does not know this user, so it is not the
/// operator.
pub(crate) fn caller_of(extensions: &Extensions, server: &Server) -> Result<Caller, ApiError> {
    let caller = extensions.get::<Caller>().filter(|caller| caller.named().is_some());
    let caller = match (caller, extensions.get::<Principal>()) {
        (Some(caller), _) => caller.clone(),
        (None, Some(principal)) => Caller::new(principal.clone()),
        (None, None) => {
            let principal = server.shared().principal.clone();
            let named = principal.filter(|principal| !principal.as_str().is_empty());
            return Ok(Caller::operator_as(named));
        }
    };
    match check_name(caller.named().map(Principal::as_str).unwrap_or_default()) {
        Ok(()) => Ok(caller),
        Err(why) => {
            let why = format!("The app does not say who sends this request: the name {why}.");
            Err(ApiError::new(ErrorKind::Forbidden, why))
        }
    }
}

impl<R: Right + Send> FromRequestParts<Server> for SessionFor<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, ApiError> {
        let SessionId(id) = SessionId::from_request_parts(parts, server).await?;
        let caller = caller_of(&parts.extensions, server)?;
        let caller = caller.traced(server.shared().telemetry.trace(&parts.headers));
        let owner = check_session::<R>(server, &caller, &id).await?;
        Ok(SessionFor { id, caller, owner, right: PhantomData })
    }
}

/// Checks that the caller has the right to a session. Returns the owner, if the caller is not the
/// operator.
pub(crate) async fn check_session<R: Right>(
    server: &Server,
    caller: &Caller,
    id: &str,
) -> Result<Option<Principal>, ApiError> {
    if caller.named().is_none() {
        return Ok(None);
    }
    let session = root_of(server, id).await?;
    check(server, caller, id, &session, R::access(&session)).await?;
    Ok(session.owner)
}

/// Checks that the caller may decide an action of a session. Returns whether the action of this
/// call with this digest is pending.
///
/// If the action is not pending, the caller may only read the session or decide another action of
/// the call. The decision must then not be sent: the action may be pending when the session's owner
/// takes it, with roles that nobody has checked.
pub(crate) async fn check_decide(
    server: &Server,
    caller: &Caller,
    id: &str,
    call: &str,
    digest: &str,
) -> Result<bool, ApiError> {
    if caller.named().is_none() {
        return Ok(true); // the operator may decide everything, and the session refuses the rest
    }
    let session = root_of(server, id).await?;
    let action = session.pending.iter().find(|action| *action.action.call == *call);
    let access = match action {
        Some(action) => Access::Decide(&session, action),
        None => Access::Read(&session),
    };
    check(server, caller, id, &session, access).await?;
    Ok(action.is_some_and(|action| *action.action.digest == *digest))
}

/// Checks that the caller may create a session, or start a chat request, with these settings.
pub(crate) async fn check_create(
    server: &Server,
    caller: &Caller,
    settings: &SessionSettings,
) -> Result<(), ApiError> {
    let policy = &server.shared().policy;
    if caller.named().is_none() || policy.allows(caller, Access::Create(settings)).await {
        return Ok(());
    }
    let why = "You may not use this agent with these settings here: ask the server's operator.";
    Err(ApiError::new(ErrorKind::Forbidden, why))
}

/// Checks that the caller may read the metrics.
pub(crate) async fn check_metrics(server: &Server, caller: &Caller) -> Result<(), ApiError> {
    let policy = &server.shared().policy;
    if caller.named().is_none() || policy.allows(caller, Access::Metrics).await {
        return Ok(());
    }
    let why = "The metrics are about the sessions of all users: use the token of the operator, or \
               of a user with the role `reader`.";
    Err(ApiError::new(ErrorKind::Forbidden, why))
}

/// Returns whether the caller may read a session of a list.
pub(crate) async fn may_read(server: &Server, caller: &Caller, session: &SessionInfo) -> bool {
    caller.named().is_none() || server.shared().policy.allows(caller, Access::Read(session)).await
}

/// Returns whether the caller may see an action of a session: they may read the session, or decide
/// the action.
pub(crate) async fn may_see(
    server: &Server,
    caller: &Caller,
    session: &SessionInfo,
    action: &PendingAction,
) -> bool {
    let policy = &server.shared().policy;
    may_read(server, caller, session).await
        || policy.allows(caller, Access::Decide(session, action)).await
}

/// Returns whether the caller may see the record of a decision. Callers see their own decisions and
/// the decisions in sessions that they may read. `admin` and the operator see all, even of deleted
/// sessions.
pub(crate) async fn may_audit(server: &Server, caller: &Caller, record: &DecisionRecord) -> bool {
    let Some(principal) = caller.named() else { return true };
    if record.by.as_deref() == Some(principal.as_str()) {
        return true;
    }
    match server.shared().store.session(&record.session).await {
        Ok(session) => may_read(server, caller, &session).await,
        Err(MemoryError::NoSession(_)) => caller.is_admin(),
        Err(_) => false,
    }
}

/// Returns a session's info, or its root's if the session belongs to a sub-agent.
pub(crate) async fn root_of(server: &Server, id: &str) -> Result<SessionInfo, MemoryError> {
    let store = &server.shared().store;
    let session = store.session(id).await?;
    match session.sub_agent_of.as_ref().and_then(|parent| parent.root.clone()) {
        Some(root) => store.session(&root).await,
        None => Ok(session),
    }
}

async fn check(
    server: &Server,
    caller: &Caller,
    id: &str,
    session: &SessionInfo,
    access: Access<'_>,
) -> Result<(), ApiError> {
    let policy = &server.shared().policy;
    if policy.allows(caller, access).await {
        return Ok(());
    }
    let wanted = match access {
        Access::Create(_) => "create",
        Access::Read(_) => "read",
        Access::Change(_) => "change",
        Access::Decide(..) => "decide",
        Access::Delete(_) => "delete",
        Access::Metrics => "read the metrics",
    };
    if matches!(access, Access::Read(_)) || !policy.allows(caller, Access::Read(session)).await {
        // The client gets "no such session", so the log of refusals does not contain this one.
        tracing::warn!(%caller, session = id, wanted, "a request was refused by the policy");
        return Err(MemoryError::NoSession(id.into()).into());
    }
    let why = match access {
        Access::Decide(..) => "You may read this session, but not decide this action.",
        Access::Delete(_) => "You may read this session, but not delete it.",
        _ => "You may read this session, but not change it.",
    };
    Err(ApiError::new(ErrorKind::Forbidden, why))
}
