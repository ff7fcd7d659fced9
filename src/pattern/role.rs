//! [`Role`], the source of the profile for a step's requests.

use std::sync::Arc;

use crate::message::Message;
use crate::session::request::ask::Profile;

/// The source of the profile for each request of a step.
pub(crate) enum Role<'a> {
    /// The agent's own settings.
    Agent,
    /// A profile within an outer role.
    Fixed(Profile, &'a Role<'a>),
    /// A function of the messages that were not removed, within an outer role.
    OfHistory(&'a (dyn Fn(&[Arc<Message>]) -> Profile + Send + Sync), &'a Role<'a>),
}

impl Role<'_> {
    /// Returns whether the profile depends on the history.
    pub(crate) fn follows_history(&self) -> bool {
        match self {
            Role::Agent => false,
            Role::Fixed(_, outer) => outer.follows_history(),
            Role::OfHistory(..) => true,
        }
    }

    /// Returns the profile of the next request.
    pub(crate) fn profile(&self, history: &[Arc<Message>]) -> Profile {
        match self {
            Role::Agent => Profile::default(),
            Role::Fixed(profile, outer) => profile.clone().within(&outer.profile(history)),
            Role::OfHistory(of, outer) => of(history).within(&outer.profile(history)),
        }
    }
}
