//! [`Conversation`]: the messages that hooks may change.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::message::Message;

/// The messages that a hook may change. They are collected on first access, so a hook that does not
/// read them costs nothing.
pub struct Conversation(LazyLock<Vec<Arc<Message>>, Collect>);

type Collect = Box<dyn FnOnce() -> Vec<Arc<Message>> + Send>;

impl Conversation {
    pub(crate) fn new(collect: impl FnOnce() -> Vec<Arc<Message>> + Send + 'static) -> Self {
        Conversation(LazyLock::new(Box::new(collect)))
    }
}

impl Deref for Conversation {
    type Target = [Arc<Message>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
