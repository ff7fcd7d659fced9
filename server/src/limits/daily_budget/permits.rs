//! [`Permits`]: the reservations for a principal's requests in progress in this process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright_core::session::BudgetPermit;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::use_file::{Use, add};

/// The reservations for a principal's requests in progress.
#[derive(Default)]
pub(super) struct Permits {
    held: Mutex<Held>,
    ended: Notify,
}

#[derive(Default)]
struct Held {
    /// The number of the last reservation.
    last: u64,
    /// The session and the size of each reservation.
    by_number: HashMap<u64, (Arc<str>, Use)>,
}

/// A snapshot of the reservations, taken before the logs are read. A request that ends in between
/// counts with its reservation.
#[derive(Default)]
pub(super) struct Reserved {
    /// The sessions with requests in progress.
    pub(super) sessions: HashSet<Arc<str>>,
    /// The sum of the reservations.
    pub(super) all: Use,
}

/// A reservation, which ends when the permit is dropped.
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
    /// Reserves usage for a request.
    pub(super) fn reserve(self: &Arc<Self>, session: &str, needed: Use) -> BudgetPermit {
        let mut held = self.held();
        held.last += 1;
        let number = held.last;
        held.by_number.insert(number, (session.into(), needed));
        Box::new(Permit { permits: self.clone(), number })
    }

    /// Returns the current reservations.
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
