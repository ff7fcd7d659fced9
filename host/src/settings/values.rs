//! The values of settings, as they are read.

use loopwright_protocols::whole_number;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Deserialises the names of tools. Earlier versions of the command line stored `{"tool": NAME}`.
pub(super) fn approvals<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "the name of a tool, or `all`")]
    enum Name {
        Word(String),
        Tool { tool: String },
    }
    let names = Option::<Vec<Name>>::deserialize(from)?;
    let name = |name| match name {
        Name::Word(name) | Name::Tool { tool: name } => name,
    };
    Ok(names.map(|names| names.into_iter().map(name).collect()))
}

/// Deserialises a whole number of at least 1.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    match whole_number(from)? {
        Some(0) => Err(D::Error::custom("none, expected a number of at least 1")),
        number => Ok(number),
    }
}

/// Deserialises a sum of money greater than 0.
pub(super) fn sum<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(from)? {
        Some(sum) if !sum.is_finite() || sum <= 0.0 => {
            Err(D::Error::custom("no sum, expected a number greater than 0"))
        }
        sum => Ok(sum),
    }
}
