//! [`Role`]: where the profile of a step's requests comes from.

use std::sync::Arc;

use crate::message::Message;
use crate::session::ask::Profile;

/// Gives each request of a step a profile.
pub(crate) enum Role<'a> {
    Fixed(Profile),
    /// A function of the history, within an outer profile.
    OfHistory(&'a (dyn Fn(&[Arc<Message>]) -> Profile + Send + Sync), Profile),
}

impl Role<'_> {
    /// Returns the profile of the next request.
    pub(crate) fn profile(&self, history: &[Arc<Message>]) -> Profile {
        match self {
            Role::Fixed(profile) => profile.clone(),
            Role::OfHistory(of, outer) => of(history).within(outer),
        }
    }
}
