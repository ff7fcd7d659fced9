//! Identifiers of calls, inputs, messages and runs.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, SystemEnvironment};

/// The id of a tool call, unique in its session: if a model uses an id again, the session replaces
/// it.
pub type CallId = Arc<str>;

/// The id of an input. The client chooses it, or the session generates one. An input whose id was
/// accepted before has no effect.
pub type InputId = Arc<str>;

/// Returns a random id for an input that has none.
pub fn new_input_id() -> InputId {
    format!("i{:016x}", SystemEnvironment.random()).into()
}

/// The number of a message in its session, written `m7`. It is derived from the log, so it is the
/// same after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MessageId(pub u64);

/// The number of a run in its session, written `r7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RunId(pub u64);

macro_rules! numbered {
    ($name:ident, $letter:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(from)?;
                let number = text.strip_prefix($letter).and_then(|n| n.parse().ok());
                number.map($name).ok_or_else(|| {
                    let wanted = concat!("an id such as \"", $letter, "7\"");
                    serde::de::Error::invalid_value(serde::de::Unexpected::Str(&text), &wanted)
                })
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                // A number of 20 digits may not fit into 64 bits.
                let pattern = concat!("^", $letter, "[0-9]{1,19}$");
                schemars::json_schema!({ "type": "string", "pattern": pattern })
            }
        }
    };
}

numbered!(MessageId, "m");
numbered!(RunId, "r");
