//! The session of an agent: storing, building, opening and following it.

mod agent;
mod allowed;
mod catalogue;
mod distil;
mod follow;
mod model;
mod open;
mod sending;
mod store;
mod unattended;

pub(crate) use self::agent::{Built, Previews, build};
pub(crate) use self::allowed::{Allowed, Scope};
pub(crate) use self::catalogue::{catalogue, default_models_file};
pub(crate) use self::distil::distil_at_end;
pub(crate) use self::follow::{FollowError, Live, Operator, follow};
pub(crate) use self::model::detect;
pub(crate) use self::open::{Prefer, Session};
pub(crate) use self::sending::Sending;
pub(crate) use self::store::{SessionSetup, existing, find, name_or_random, stored_settings};
pub(crate) use self::unattended::{RunOutput, run_unattended};
