//! Callers: authentication and access rights.

mod caller;
#[cfg(feature = "jwt")]
mod jwt;
mod name;
pub(crate) mod path;
mod policy;
mod proxies;
pub(crate) mod refusal_log;
mod session;
mod token;
mod users;

pub use self::caller::Caller;
#[cfg(feature = "jwt")]
pub use self::jwt::JwtUsers;
pub use self::policy::{Access, AccessPolicy, OwnerPolicy};
pub(crate) use self::proxies::Proxies;
pub(crate) use self::session::{
    Change, Delete, Read, SessionFor, caller_of, check_create, check_decide, check_metrics,
    check_session, may_audit, may_read, may_see,
};
pub(crate) use self::token::TokenDigest;
pub(crate) use self::users::Users;
