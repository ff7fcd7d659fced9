//! [`Quota`]: a limit on concurrent uses, per client and in total.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::Extensions;
use axum::http::request::Parts;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A counter of concurrent uses, by client. Clones share the counts.
#[derive(Clone)]
pub(crate) struct Quota(Arc<Inner>);

struct Inner {
    max_per_client: usize,
    max_total: usize,
    counts: Mutex<Counts>,
    /// Notified when a permit is dropped.
    released: Notify,
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// The sender of a request, identified by its address, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client(pub(crate) Option<IpAddr>);

/// A permit that counts as one use until it is dropped.
pub(crate) struct Permit {
    quota: Quota,
    client: Client,
}

impl Quota {
    pub(crate) fn new(max_per_client: usize, max_total: usize) -> Self {
        let counts = Mutex::default();
        Quota(Arc::new(Inner { max_per_client, max_total, counts, released: Notify::new() }))
    }

    /// Takes a permit. Returns `None` if the quota of the client or the total quota is used up.
    pub(crate) fn try_acquire(&self, client: Client) -> Option<Permit> {
        let mut counts = self.counts();
        let own = client.0.map_or(0, |ip| counts.by_client.get(&ip).copied().unwrap_or(0));
        if own >= self.0.max_per_client || counts.total >= self.0.max_total {
            return None;
        }
        counts.total += 1;
        if let Some(ip) = client.0 {
            counts.by_client.insert(ip, own + 1);
        }
        Some(Permit { quota: self.clone(), client })
    }

    /// Takes a permit without a client, even if the quota is used up.
    pub(crate) fn acquire_unchecked(&self) -> Permit {
        self.counts().total += 1;
        Permit { quota: self.clone(), client: Client(None) }
    }

    /// Resolves when a permit is dropped after this call.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.0.released.notified()
    }

    /// Resolves when no permit is in use.
    pub(crate) async fn unused(&self) {
        loop {
            let released = self.released();
            if self.in_use() == 0 {
                return;
            }
            released.await;
        }
    }

    /// Returns the number of permits in use.
    pub(crate) fn in_use(&self) -> usize {
        self.counts().total
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        counts.total = counts.total.saturating_sub(1);
        if let Some(ip) = self.client.0 {
            match counts.by_client.get_mut(&ip) {
                Some(own) if *own > 1 => *own -= 1,
                _ => drop(counts.by_client.remove(&ip)),
            }
        }
        drop(counts);
        self.quota.0.released.notify_waiters();
    }
}

impl Client {
    /// Returns the client at this address. All addresses of an IPv6 network of the usual size (/64)
    /// are one client.
    pub(crate) fn of(ip: IpAddr) -> Self {
        Client(Some(match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        }))
    }

    /// Returns the client of a request with these extensions.
    pub(crate) fn of_request(extensions: &Extensions) -> Self {
        let address = extensions.get::<ConnectInfo<SocketAddr>>();
        address.map_or(Client(None), |ConnectInfo(address)| Client::of(address.ip()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Client::of_request(&parts.extensions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_are_counted_by_client_and_released() {
        let quota = Quota::new(2, 3);
        let [a, b, c] =
            ["10.0.0.1", "2001:db8::1", "2001:db8::2"].map(|ip| Client::of(ip.parse().unwrap()));
        assert_eq!(b, c, "one network");
        let first = quota.try_acquire(a).unwrap();
        let second = quota.try_acquire(a).unwrap();
        assert!(quota.try_acquire(a).is_none(), "a client has two");
        let third = quota.try_acquire(b).unwrap();
        assert!(quota.try_acquire(b).is_none(), "all together have three");
        drop((first, second));
        assert!(quota.try_acquire(a).is_some());
        tokio::join!(quota.unused(), async { drop(third) });
        let counts = quota.counts();
        assert_eq!((counts.total, counts.by_client.len()), (0, 0));
    }
}
