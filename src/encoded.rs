//! The bytes of a value in a wire format, encoded once.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

/// A cache for the bytes that the first codec produced. Other codecs encode on each call.
#[derive(Default)]
pub(crate) struct Encoded(OnceLock<(&'static str, Box<[u8]>)>);

impl Encoded {
    pub(crate) fn get(
        &self,
        codec: &'static str,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Cow<'_, [u8]> {
        let mut encode = Some(encode);
        let (by, bytes) = self.0.get_or_init(|| {
            (codec, encode.take().map(|e| e().into_boxed_slice()).unwrap_or_default())
        });
        match encode {
            Some(encode) if *by != codec => Cow::Owned(encode()),
            _ => Cow::Borrowed(bytes),
        }
    }
}

impl Clone for Encoded {
    fn clone(&self) -> Self {
        Encoded::default() // a clone is about to be changed
    }
}

impl PartialEq for Encoded {
    fn eq(&self, _: &Self) -> bool {
        true // derived data
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get().map_or("-", |(codec, _)| codec))
    }
}
