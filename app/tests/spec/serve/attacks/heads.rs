//! Hostile heads: names, origins, types, framing, paths.

use std::fmt::Write;

use serde_json::json;

use super::{Attack, Served, raw};

pub(super) fn heads(served: &Served) -> Vec<Attack> {
    let body = served.body("Hello", &json!({})).to_string();
    let body = body.as_bytes();
    let (host, json) =
        (format!("Host: {}\r\n", served.address), "Content-Type: application/json\r\n");
    let port = served.address.rsplit(':').next().unwrap();
    let case = |name, headers: String, refusals| raw(name, &headers, body, refusals);
    let plain = |name, text: String, refusals| Attack { name, bytes: text.into_bytes(), refusals };
    let smuggled = |name, headers: &str, body: &str| {
        let head = format!("POST /api/agent-chat HTTP/1.1\r\n{host}{json}{headers}\r\n\r\n");
        plain(name, format!("{head}{body}"), &[400, 501, 0])
    };
    let path = |path: &'static str| {
        plain(path, format!("GET {path} HTTP/1.1\r\n{host}\r\n"), &[400, 404, 0])
    };
    let many = (0..200).fold(String::new(), |mut text, n| {
        write!(text, "x-{n}: 1\r\n").unwrap();
        text
    });
    vec![
        case("another host", format!("Host: evil.example\r\n{json}"), &[403]),
        case("another name for this port", format!("Host: evil.example:{port}\r\n{json}"), &[403]),
        case(
            "a name that begins like ours",
            format!("Host: localhost.evil.example:{port}\r\n{json}"),
            &[403],
        ),
        case(
            "an address of another machine",
            format!("Host: 192.168.0.1:{port}\r\n{json}"),
            &[403],
        ),
        case(
            "our address as a name",
            format!("Host: 127.0.0.1.evil.example:{port}\r\n{json}"),
            &[403],
        ),
        case("any address", format!("Host: 0.0.0.0:{port}\r\n{json}"), &[403]),
        case("an address as a number", format!("Host: 2130706433:{port}\r\n{json}"), &[403]),
        case("a short address", format!("Host: 127.1:{port}\r\n{json}"), &[403]),
        case("an address of IPv6", format!("Host: [2001:db8::1]:{port}\r\n{json}"), &[403]),
        case("a name with a dot", format!("Host: localhost.:{port}\r\n{json}"), &[403]),
        case("two names", format!("Host: localhost, evil.example\r\n{json}"), &[400, 403]),
        case("an empty host", format!("Host: \r\n{json}"), &[400, 403]),
        case("a host with a path", format!("Host: localhost/evil.example\r\n{json}"), &[400, 403]),
        case("no host", json.into(), &[400]),
        case("two hosts", format!("{host}Host: evil.example\r\n{json}"), &[400]),
        case("a host with a user", format!("Host: localhost@evil.example\r\n{json}"), &[400, 403]),
        case("a page elsewhere", format!("{host}{json}Origin: http://evil.example\r\n"), &[403]),
        case("a page in a sandbox", format!("{host}{json}Origin: null\r\n"), &[403]),
        case(
            "a page at another port",
            format!("{host}{json}Origin: http://127.0.0.1:1\r\n"),
            &[403],
        ),
        case(
            "a page of our name",
            format!("{host}{json}Origin: http://localhost.evil.example:{port}\r\n"),
            &[403],
        ),
        case("an extension", format!("{host}{json}Origin: chrome-extension://abcdef\r\n"), &[403]),
        case("a file", format!("{host}{json}Origin: file://\r\n"), &[403]),
        case("an empty origin", format!("{host}{json}Origin: \r\n"), &[403]),
        case("a part of a page", format!("{host}{json}Sec-Fetch-Site: same-site\r\n"), &[403]),
        case(
            "two origins",
            format!(
                "{host}{json}Origin: http://{}\r\nOrigin: http://evil.example\r\n",
                served.address
            ),
            &[403],
        ),
        case(
            "a page of another site",
            format!("{host}{json}Sec-Fetch-Site: cross-site\r\n"),
            &[403],
        ),
        case("a form as text", format!("{host}Content-Type: text/plain\r\n"), &[415]),
        case(
            "a form",
            format!("{host}Content-Type: application/x-www-form-urlencoded\r\n"),
            &[415],
        ),
        case("no type", host.clone(), &[415]),
        case("two types", format!("{host}{json}Content-Type: text/plain\r\n"), &[415]),
        case(
            "another charset",
            format!("{host}Content-Type: application/json; charset=utf-7\r\n"),
            &[415],
        ),
        case("packed", format!("{host}{json}Content-Encoding: gzip\r\n"), &[415]),
        case(
            "a header without end",
            format!("{host}{json}x: {}\r\n", "a".repeat(100_000)),
            &[431, 0],
        ),
        case("headers without end", format!("{host}{json}{many}"), &[431, 0]),
        case("two lengths", format!("{host}{json}Content-Length: 1\r\n"), &[400, 0]),
        case(
            "a length and chunks",
            format!("{host}{json}Transfer-Encoding: chunked\r\n"),
            &[400, 0],
        ),
        plain(
            "chunks of no size",
            format!(
                "POST /api/agent-chat HTTP/1.1\r\n{host}{json}\
                 Transfer-Encoding: chunked\r\n\r\nxyz\r\n"
            ),
            &[400, 0],
        ),
        plain(
            "a length beyond all numbers",
            format!(
                "POST /api/agent-chat HTTP/1.1\r\n{host}{json}\
                 Content-Length: 99999999999999999999\r\n\r\n"
            ),
            &[400, 0],
        ),
        plain(
            "a length beyond the limit",
            format!(
                "POST /api/agent-chat HTTP/1.1\r\n{host}{json}Content-Length: 9999999999\r\n\r\n"
            ),
            &[413],
        ),
        plain(
            "another host in the path",
            format!(
                "POST http://evil.example/api/agent-chat HTTP/1.1\r\n{host}{json}\
                 Content-Length: 2\r\n\r\n{{}}"
            ),
            &[403],
        ),
        plain("another path", format!("GET /../../etc/passwd HTTP/1.1\r\n{host}\r\n"), &[404]),
        smuggled("chunks and another coding", "Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
        smuggled("almost chunks", "Transfer-Encoding: xchunked", "0\r\n\r\n"),
        smuggled("chunks twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x", "0\r\n\r\n"),
        smuggled("a blank before the colon", "Transfer-Encoding : chunked", "0\r\n\r\n"),
        smuggled("a folded line", "x: a\r\n Transfer-Encoding: chunked", "0\r\n\r\n"),
        smuggled("a header with a NUL", "x: a\0b", ""),
        smuggled("a chunk of negative size", "Transfer-Encoding: chunked", "-5\r\nhello\r\n"),
        smuggled(
            "a chunk beyond all numbers",
            "Transfer-Encoding: chunked",
            "fffffffffffffffff\r\nhello\r\n",
        ),
        smuggled("a chunk that ends late", "Transfer-Encoding: chunked", "2\r\nhello\r\n0\r\n\r\n"),
        smuggled("a size with a sign", "Content-Length: +2", "{}"),
        smuggled("a negative length", "Content-Length: -1", "{}"),
        smuggled("lengths in a list", "Content-Length: 2, 3", "{}"),
        plain(
            "another path, encoded",
            format!("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n{host}\r\n"),
            &[404],
        ),
        path("//etc/passwd"),
        path("/..%2f..%2fetc%2fpasswd"),
        path("/.%00/style.css"),
        path("/style.css/../../Cargo.toml"),
        path("/style.css%00.html"),
        path("/%5c..%5c..%5cetc%5cpasswd"),
        path("/api/sessions/..%2f..%2fetc%2fpasswd"),
        path("/api/sessions/%2e%2e/messages"),
        path("/api/sessions/%00/messages"),
        path("/api/sessions/%ff%fe"),
        path("/api/sessions/a%0d%0aSet-Cookie:%20x/messages"),
        path("/api/../../server/page/index.html"),
        path("/.git/config"),
        path("/.env"),
        plain("another method", format!("GET /api/agent-chat HTTP/1.1\r\n{host}\r\n"), &[405]),
        plain(
            "a tunnel",
            format!("CONNECT evil.example:443 HTTP/1.1\r\n{host}\r\n"),
            &[400, 403, 404, 405, 415],
        ),
        plain("no HTTP", "\u{16}\u{3}\u{1}hello\r\n\r\n".into(), &[400, 0]),
        plain("an old HTTP", "GET /\r\n\r\n".into(), &[400, 0]),
    ]
}
