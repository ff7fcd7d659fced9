//! [`Permits`]: what is reserved for the requests of a principal that are in progress in this
//! process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright_core::agent::BudgetPermit;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::use_file::{Use, add};

/// What is reserved for the requests of a principal that are in progress.
#[derive(Default)]
pub(super) struct Permits {
    held: Mutex<Held>,
    ended: Notify,
}

#[derive(Default)]
struct Held {
    /// The number of the last one.
    last: u64,
    /// The session of each, and what is reserved for it.
    by_number: HashMap<u64, (Arc<str>, Use)>,
}

/// A snapshot of the reservations, taken before the logs are read: a request that ends in between
/// counts as what was reserved for it.
#[derive(Default)]
pub(super) struct Reserved {
    /// The sessions whose requests were in progress.
    pub(super) sessions: HashSet<Arc<str>>,
    /// What was reserved for all of them.
    pub(super) all: Use,
}

/// Ends a reservation when it is dropped.
struct Permit {
    permits: Arc<Permits>,
    number: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.held().by_number.remove(&self.number);
        self.permits.ended.notify_waiters();
    }
}

impl Permits {
    /// Reserves for a request.
    pub(super) fn reserve(self: &Arc<Self>, session: &str, needed: Use) -> BudgetPermit {
        let mut held = self.held();
        held.last += 1;
        let number = held.last;
        held.by_number.insert(number, (session.into(), needed));
        Box::new(Permit { permits: self.clone(), number })
    }

    /// Returns what is reserved now.
    pub(super) fn snapshot(&self) -> Reserved {
        let held = self.held();
        let mut reserved = Reserved::default();
        for (session, needed) in held.by_number.values() {
            reserved.sessions.insert(session.clone());
            reserved.all = add(reserved.all, *needed);
        }
        reserved
    }

    /// Resolves when a reservation ends.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
