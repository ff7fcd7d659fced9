//! [`ToolList`], the tools that a request offers.

use std::borrow::Cow;
use std::sync::Arc;

use crate::encoded::Encoded;
use crate::tool::ToolSpec;

/// The tools of a request. Requests with the same tools share the list, so it is encoded once.
#[derive(Debug, Clone, Default)]
pub struct ToolList {
    specs: Vec<Arc<ToolSpec>>,
    encoded: Encoded,
}

impl ToolList {
    /// Builds a list of these tools.
    pub fn new(specs: Vec<Arc<ToolSpec>>) -> Self {
        ToolList { specs, encoded: Encoded::default() }
    }

    /// Returns the list as encoded by `codec`, encoding it at most once; see
    /// [`Message::encode_once`](crate::Message::encode_once).
    pub fn encode_once(
        &self,
        codec: &'static str,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Cow<'_, [u8]> {
        self.encoded.get(codec, encode)
    }
}

impl std::ops::Deref for ToolList {
    type Target = [Arc<ToolSpec>];
    fn deref(&self) -> &Self::Target {
        &self.specs
    }
}
