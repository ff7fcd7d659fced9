//! New and resolved actions of all sessions, as they happen: for readers, the host and webhooks.

mod change;
mod outbox;
mod report;
mod watch;
#[cfg(feature = "webhooks")]
mod webhook;

pub use self::change::ActionChange;
pub(crate) use self::report::{OnAction, Reporter};
pub(crate) use self::watch::{ActionWatch, Subscription};
#[cfg(feature = "webhooks")]
pub use self::webhook::Webhook;
#[cfg(feature = "webhooks")]
pub(crate) use self::webhook::WebhookSender;
