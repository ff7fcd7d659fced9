//! [`is_public`], a test for IP addresses of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// IPv4 networks outside the public internet: IANA's special-purpose registry, and multicast. They
/// include the metadata services of clouds, such as 169.254.169.254.
const PRIVATE_V4: [Ipv4Net; 15] = [
    v4([0, 0, 0, 0], 8),        // this network
    v4([10, 0, 0, 0], 8),       // private
    v4([100, 64, 0, 0], 10),    // shared between customers of a provider (CGNAT)
    v4([127, 0, 0, 0], 8),      // loopback
    v4([168, 63, 129, 16], 32), // Azure's services of the host, at a public address
    v4([169, 254, 0, 0], 16),   // link-local
    v4([172, 16, 0, 0], 12),    // private
    v4([192, 0, 0, 0], 24),     // protocol assignments
    v4([192, 0, 2, 0], 24),     // documentation
    v4([192, 88, 99, 0], 24),   // relays of 6to4
    v4([192, 168, 0, 0], 16),   // private
    v4([198, 18, 0, 0], 15),    // benchmarks
    v4([198, 51, 100, 0], 24),  // documentation
    v4([203, 0, 113, 0], 24),   // documentation
    v4([224, 0, 0, 0], 3),      // multicast, reserved, broadcast
];

/// The allocated IPv6 addresses. All others are local, multicast or reserved.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Parts of [`GLOBAL_V6`] that are outside the public internet, or that embed an IPv4 address.
const PRIVATE_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // protocol assignments, Teredo
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), // 6to4
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation
];

/// IPv6 addresses that stand for IPv4 addresses behind a translator (NAT64).
const TRANSLATED: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}

/// Returns whether an address belongs to the public internet. Other addresses reach this machine,
/// its network or the services of its cloud. Requests caused by outsiders must not go there.
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !PRIVATE_V4.iter().any(|network| network.contains(&ip)),
        IpAddr::V6(ip) if TRANSLATED.contains(&ip) => {
            let [.., a, b, c, d] = ip.octets();
            is_public(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(ip) => {
            GLOBAL_V6.contains(&ip) && !PRIVATE_V6.iter().any(|network| network.contains(&ip))
        }
    }
}
