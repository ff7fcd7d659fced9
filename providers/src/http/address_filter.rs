//! [`AddressFilter`]: the IP addresses that requests may be sent to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A predicate on IP addresses, and a resolver that returns only the allowed ones, so that exactly
/// the checked address is connected to.
#[derive(Clone)]
pub(crate) struct AddressFilter(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl AddressFilter {
    pub(crate) fn new(allows: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        AddressFilter(Arc::new(allows))
    }

    /// Checks an IP address in a URL, which no resolver sees. URL parsing has normalised it:
    /// `0x7f.1` has become `127.0.0.1`.
    pub(crate) fn check(&self, url: &Url) -> Result<(), AddressRefused> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(ip) if !self.allows(ip) => Err(AddressRefused),
            _ => Ok(()),
        }
    }

    /// Returns whether requests may be sent to `ip`. IPv4-mapped IPv6 addresses count as IPv4.
    fn allows(&self, ip: IpAddr) -> bool {
        (self.0)(ip.to_canonical())
    }
}

impl Resolve for AddressFilter {
    fn resolve(&self, name: Name) -> Resolving {
        let filter = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| filter.allows(address.ip())).collect();
            match allowed.is_empty() {
                true => Err(AddressRefused.into()),
                false => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

impl fmt::Debug for AddressFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressFilter")
    }
}

/// Error for an address that is not allowed, or a name without an allowed address.
#[derive(Debug)]
pub(crate) struct AddressRefused;

impl fmt::Display for AddressRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its IP address is not allowed")
    }
}

impl std::error::Error for AddressRefused {}
