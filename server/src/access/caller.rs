//! [`Caller`]: the sender of a request.

use std::fmt;
use std::sync::Arc;

use loopwright_core::event::Prompt;
use loopwright_core::{Principal, TraceContext};

/// The role that may do everything.
const ADMIN: &str = "admin";
/// The author of the operator's decisions, on a server that has other users.
pub(super) const OPERATOR: &str = "operator";
/// The author of the decisions that a session takes at a deadline.
pub(super) const SYSTEM: &str = "system";

/// The sender of a request: a principal with roles, or the operator of the server.
///
/// A [served](crate::serve) server derives the caller from the token. A host that mounts the routes
/// in an app of its own inserts it into the extensions of each request with a layer (see
/// [`router`](crate::router)). A bare [`Principal`] is a caller without roles. The body of a
/// request never names its sender.
///
/// ```
/// use loopwright_core::Principal;
/// use loopwright_server::Caller;
///
/// let ann = Caller::new(Principal::new("ann")).role("finance");
/// assert!(ann.has_role("finance") && !ann.is_admin());
/// assert!(Caller::operator().is_admin());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    principal: Option<Principal>,
    roles: Vec<Arc<str>>,
    /// `false` for the operator.
    is_named: bool,
    /// The trace of the request, if there is telemetry.
    trace: Option<TraceContext>,
}

impl Caller {
    /// Builds a caller without roles.
    pub fn new(principal: Principal) -> Self {
        Caller { principal: Some(principal), roles: Vec::new(), is_named: true, trace: None }
    }

    /// Builds the operator of the server, who may do everything. A request that neither a layer nor
    /// a token names comes from the operator.
    pub fn operator() -> Self {
        Caller { principal: None, roles: Vec::new(), is_named: false, trace: None }
    }

    /// Adds a role. [`OwnerPolicy`](crate::OwnerPolicy) knows `admin`, `reader` and `approver`.
    /// Actions and the host's policy may use others.
    pub fn role(mut self, role: impl Into<Arc<str>>) -> Self {
        self.roles.push(role.into());
        self
    }

    /// Returns the principal, if it is known. The operator's is the server's.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Returns the roles.
    pub fn roles(&self) -> &[Arc<str>] {
        &self.roles
    }

    /// Returns whether the caller has this role.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|own| **own == *role)
    }

    /// Returns whether the caller is the operator or has the role `admin`.
    pub fn is_admin(&self) -> bool {
        !self.is_named || self.has_role(ADMIN)
    }

    /// Builds the operator with this principal.
    pub(super) fn operator_as(principal: Option<Principal>) -> Self {
        Caller { principal, ..Caller::operator() }
    }

    /// Returns the caller with the trace of its request.
    pub(super) fn traced(self, trace: Option<TraceContext>) -> Self {
        Caller { trace, ..self }
    }

    /// Sets the principal and the trace of a prompt to the caller's.
    pub(crate) fn sends(&self, prompt: Prompt) -> Prompt {
        let prompt = match &self.trace {
            Some(trace) => prompt.with(trace.clone()),
            None => prompt,
        };
        match &self.principal {
            Some(principal) => prompt.with(principal.clone()),
            None => prompt,
        }
    }

    /// Returns the owner of the sessions that the caller creates: its principal, or `None` for the
    /// operator.
    pub(crate) fn named(&self) -> Option<&Principal> {
        self.principal.as_ref().filter(|_| self.is_named)
    }
}

impl Caller {
    /// Returns the author of the caller's decisions. It is `None` for the operator of a server
    /// without other users, as nobody else can decide there.
    pub(crate) fn decides_as(&self, has_users: bool) -> Option<&str> {
        match self.named() {
            Some(principal) => Some(principal.as_str()),
            None => has_users.then_some(OPERATOR),
        }
    }
}

impl From<Principal> for Caller {
    fn from(principal: Principal) -> Self {
        Caller::new(principal)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.named() {
            Some(principal) => principal.fmt(f),
            None => f.write_str("the operator"),
        }
    }
}
