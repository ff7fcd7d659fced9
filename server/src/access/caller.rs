//! [`Caller`]: who sends a request.

use std::fmt;
use std::sync::Arc;

use loopwright_core::agent::{Principal, TraceContext};
use loopwright_core::event::Prompt;

/// The role of those who may do everything.
const ADMIN: &str = "admin";
/// Whom the decisions of the operator name on a server that has other users.
pub(super) const OPERATOR: &str = "operator";
/// Whom the decisions name that a session takes at a deadline.
pub(super) const SYSTEM: &str = "system";

/// Says who sends a request: a principal with roles, or the operator of the server.
///
/// A [served](crate::serve) server makes it of the token. A host that mounts the routes in an app
/// of its own inserts it into the extensions of each request with a layer (see
/// [`router`](crate::router)); a bare [`Principal`] is a caller without roles. No part of the body
/// of a request says who sends it.
///
/// ```
/// use loopwright_core::agent::Principal;
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
    /// Not the operator.
    is_named: bool,
    /// The trace that the request belongs to, if there is telemetry.
    trace: Option<TraceContext>,
}

impl Caller {
    /// Builds a caller without roles.
    pub fn new(principal: Principal) -> Self {
        Caller { principal: Some(principal), roles: Vec::new(), is_named: true, trace: None }
    }

    /// Builds the operator of the server, who may do everything: whoever sends a request that no
    /// layer and no token names.
    pub fn operator() -> Self {
        Caller { principal: None, roles: Vec::new(), is_named: false, trace: None }
    }

    /// Adds a role. [`OwnerPolicy`](crate::OwnerPolicy) knows `admin`, `reader` and `approver`;
    /// others are those of actions and of the host's policy.
    pub fn role(mut self, role: impl Into<Arc<str>>) -> Self {
        self.roles.push(role.into());
        self
    }

    /// Returns the principal, if it is known: for the operator, that of the server.
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

    /// Returns whether it is the operator, or has the role `admin`.
    pub fn is_admin(&self) -> bool {
        !self.is_named || self.has_role(ADMIN)
    }

    /// Returns the operator with this principal.
    pub(super) fn operator_as(principal: Option<Principal>) -> Self {
        Caller { principal, ..Caller::operator() }
    }

    /// Returns the caller whose request belongs to this trace.
    pub(super) fn traced(self, trace: Option<TraceContext>) -> Self {
        Caller { trace, ..self }
    }

    /// Makes the caller the principal of a request of the user, which belongs to the trace of the
    /// caller's request.
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

    /// Returns the principal, unless the caller is the operator: whom a new session belongs to.
    pub(crate) fn named(&self) -> Option<&Principal> {
        self.principal.as_ref().filter(|_| self.is_named)
    }
}

impl Caller {
    /// Returns whom the decisions of the caller name. Those of the operator name nobody on a server
    /// without other users, as there is nobody else.
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
