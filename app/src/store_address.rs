//! Paths of stores that are addresses.

use std::path::Path;

/// Returns the address of a PostgreSQL database, if the path is one.
pub(crate) fn database(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
}
