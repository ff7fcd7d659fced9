//! [`Proxies`]: the proxies whose `X-Forwarded-For` is trusted.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;
use loopwright_host::ConfigError;

/// The header with the addresses that a request came through, the nearest one last.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies whose `X-Forwarded-For` is trusted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proxies(Vec<IpNet>);

impl Proxies {
    pub(crate) fn parse<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        let parse = |text: T| {
            network(text.as_ref().trim()).ok_or_else(|| {
                let why = format!(
                    "`{}` is no proxy: write its IP address or its network, such as `127.0.0.1` \
                     or `10.0.0.0/8`.",
                    text.as_ref()
                );
                ConfigError::new(why)
            })
        };
        Ok(Proxies(texts.into_iter().map(parse).collect::<Result<_, _>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.0.iter().any(|network| network.contains(&ip))
    }

    /// Returns the address of a client: the connection's, or, if it is a proxy's, the last one in
    /// the header that is not a proxy's. Any text from the client comes before that.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut nearest = peer;
        if !self.has(nearest) {
            return nearest;
        }
        for value in headers.get_all(FORWARDED_FOR).iter().rev() {
            for hop in value.to_str().unwrap_or_default().rsplit(',') {
                let Some(ip) = address(hop.trim()) else { return nearest };
                nearest = ip;
                if !self.has(nearest) {
                    return nearest;
                }
            }
        }
        nearest
    }
}

/// Parses an IP address or a network.
fn network(text: &str) -> Option<IpNet> {
    let address = |text: &str| text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical().into());
    text.parse::<IpNet>().ok().map(|network| network.trunc()).or_else(|| address(text))
}

/// Parses an address, which some proxies write with a port or in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client is the last hop that is not a proxy, whatever the client writes into the header.
    #[test]
    fn a_client_cannot_choose_its_address() {
        let proxies = Proxies::parse(["10.0.0.0/8", "::1"]).unwrap();
        for (peer, lines, expected) in [
            ("203.0.113.1", &["1.1.1.1"][..], "203.0.113.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("::ffff:10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["6.6.6.6, 1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["6.6.6.6", "1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["6.6.6.6, 1.1.1.1 , 10.2.3.4"], "1.1.1.1"),
            ("10.0.0.1", &["6.6.6.6", "1.1.1.1,10.0.0.9", "::1"], "1.1.1.1"),
            ("::1", &["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
            ("10.0.0.1", &["1.1.1.1:4711"], "1.1.1.1"),
            ("10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.0.0.1", &["1.1.1.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1, evil, 10.0.0.9"], "10.0.0.9"),
            ("10.0.0.1", &[""], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            let client = proxies.client_address(peer.parse().unwrap(), &headers);
            assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
        for text in ["", "proxy.internal", "10.0.0.0/40", "10.0.0.1:80"] {
            assert!(Proxies::parse([text]).is_err(), "{text}");
        }
    }
}
