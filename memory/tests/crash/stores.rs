//! The stores under test.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_memory::{Jsonl, Sqlite};
use serde::{Deserialize, Serialize};

/// Selects a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    Jsonl,
    Sqlite,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Jsonl, Kind::Sqlite];

    /// Opens the store in this directory.
    pub(crate) fn open(self, directory: &Path) -> Arc<dyn SessionStore> {
        match self {
            Kind::Jsonl => Arc::new(Jsonl::open(directory).expect("the store can be opened")),
            Kind::Sqlite => Arc::new(
                Sqlite::open(directory.join("sessions.db")).expect("the store can be opened"),
            ),
        }
    }
}
