//! [`Addresses`]: the addresses that clients may send requests to.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use loopwright_core::net::is_public;

use crate::error::ConfigError;

/// The addresses that clients may send requests to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    all: bool,
    networks: Vec<IpNet>,
    /// Hosts in lower case, as in URLs. `None` allows all ports.
    hosts: Vec<(String, Option<u16>)>,
}

impl Addresses {
    pub(crate) fn all() -> Self {
        Addresses { all: true, ..Addresses::public() }
    }

    /// Returns all addresses of the public internet.
    pub(crate) fn public() -> Self {
        Addresses { all: false, networks: Vec::new(), hosts: Vec::new() }
    }

    /// Parses the addresses that are allowed besides public ones.
    pub(super) fn parse<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        let mut addresses = Addresses::public();
        for text in texts {
            let text = text.as_ref().trim();
            if text == "all" {
                addresses.all = true;
            } else if let Some(network) = network(text) {
                addresses.networks.push(network);
            } else {
                addresses.hosts.push(host(text)?);
            }
        }
        Ok(addresses)
    }

    /// Returns whether a host is allowed by its name, whatever it resolves to.
    pub(crate) fn allows_host(&self, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        let host = host.trim_end_matches('.');
        self.all
            || self
                .hosts
                .iter()
                .any(|(name, only)| name == host && only.is_none_or(|only| only == port))
    }

    pub(crate) fn allows_ip(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.all || self.networks.iter().any(|network| network.contains(&ip)) || is_public(ip)
    }
}

/// Parses an IP address or a network.
fn network(text: &str) -> Option<IpNet> {
    let address = |text: &str| text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical().into());
    text.parse::<IpNet>().ok().map(|network| network.trunc()).or_else(|| address(text))
}

/// Parses `HOST` or `HOST:PORT`.
fn host(text: &str) -> Result<(String, Option<u16>), ConfigError> {
    let invalid = || {
        let why = format!(
            "`{text}` is no address: write a host, with a port or without, an IP address, or a \
             network, such as `models.internal:8080`, `10.0.0.7` or `10.1.0.0/16`."
        );
        ConfigError::new(why)
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| invalid())?)),
        None => (text, None),
    };
    let is_ipv6 = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
    };
    let is_name = |host: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        !host.is_empty() && host.chars().all(is_part)
    };
    match is_ipv6(host) || is_name(host) {
        true => Ok((host.to_ascii_lowercase().trim_end_matches('.').to_owned(), port)),
        false => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(addresses: &Addresses, ip: &str) -> bool {
        addresses.allows_ip(ip.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_public() {
        let public = Addresses::public();
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!allows(&public, ip), "{ip}");
            assert!(allows(&Addresses::all(), ip), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "::ffff:1.1.1.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
        ] {
            assert!(allows(&public, ip), "{ip}");
        }
    }

    #[test]
    fn addresses_are_allowed_by_network_or_by_host() {
        let own = ["10.1.2.3/16", "192.168.0.7", "fd00::/8", "Box.lan", "10.9.9.9:8080", "[::1]:9"];
        let own = Addresses::parse(own).unwrap();
        for (ip, expected) in [
            ("10.1.255.255", true),
            ("::ffff:10.1.0.1", true),
            ("10.2.0.1", false),
            ("10.9.9.9", false),
            ("192.168.0.7", true),
            ("192.168.0.8", false),
            ("fd12::1", true),
            ("fc12::1", false),
        ] {
            assert_eq!(allows(&own, ip), expected, "{ip}");
        }
        for (host, port, expected) in [
            ("box.lan", 80, true),
            ("BOX.lan.", 80, true),
            ("not.box.lan", 80, false),
            ("10.9.9.9", 8080, true),
            ("10.9.9.9", 80, false),
            ("[::1]", 9, true),
        ] {
            assert_eq!(own.allows_host(host, port), expected, "{host}:{port}");
        }
        for text in
            ["", "http://box.lan", "box.lan:http", "10.0.0.0/33", "a b", "box.lan/v1", ":80"]
        {
            assert!(Addresses::parse([text]).is_err(), "{text}");
        }
    }
}
