//! How many runs go on at a time, of one client and of all.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;

use crate::config::Limits;
use crate::error::{ApiError, Kind};

/// The runs that go on. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// Who asks: an address, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client(Option<IpAddr>);

/// A run may go on while this is kept.
pub(crate) struct Permit {
    runs: Runs,
    client: Client,
}

impl Runs {
    /// One more run of this client.
    pub(crate) fn begin(&self, client: Client, limits: &Limits) -> Result<Permit, ApiError> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = client.0.map_or(0, |ip| counts.by_client.get(&ip).copied().unwrap_or(0));
        if own >= limits.runs_per_client || counts.all >= limits.runs {
            let why = "Too many runs go on: wait until one has ended, or close its connection.";
            return Err(ApiError::new(Kind::TooMany, why));
        }
        counts.all += 1;
        if let Some(ip) = client.0 {
            counts.by_client.insert(ip, own + 1);
        }
        Ok(Permit { runs: self.clone(), client })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        let Some(ip) = self.client.0 else { return };
        match counts.by_client.get_mut(&ip) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(counts.by_client.remove(&ip)),
        }
    }
}

impl Client {
    /// Whoever asks from here. The addresses of one IPv6 network of the usual size are one client.
    pub(crate) fn of(ip: IpAddr) -> Self {
        Client(Some(match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        }))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(address.map_or(Client(None), |ConnectInfo(address)| Client::of(address.ip())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_client_and_given_back() {
        let (runs, limits) = (Runs::default(), Limits { body: 0, runs_per_client: 2, runs: 3 });
        let [a, b, c] = ["10.0.0.1", "2001:db8::1", "2001:db8::2"].map(|ip| Client::of(ip.parse().unwrap()));
        assert_eq!(b, c, "one network");
        let (first, second) = (runs.begin(a, &limits).unwrap(), runs.begin(a, &limits).unwrap());
        assert!(runs.begin(a, &limits).is_err(), "two are its share");
        let third = runs.begin(b, &limits).unwrap();
        assert!(runs.begin(b, &limits).is_err(), "three are all");
        drop((first, second, third));
        assert!(runs.begin(a, &limits).is_ok());
        assert_eq!((runs.0.lock().unwrap().all, runs.0.lock().unwrap().by_client.len()), (0, 0));
    }
}
