//! Requests from pages of other origins, and the log of refused requests.

use loopwright_test_support::http::{Connection, Response};

use super::Served;
use crate::BIN;

const TOKEN: &str = "a-token-of-32-characters-0123456";
const NAMED: &str = "https://app.example.org";

fn send(address: &str, line: &str, headers: &str) -> Response {
    let mut connection = Connection::open(address);
    let request =
        format!("{line} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
    connection.send(request.as_bytes());
    connection.response().unwrap()
}

/// C198: An origin that the operator has named gets answers that its browser lets it read. A
/// preflight needs no token; all other requests do.
#[test]
fn a_named_origin_is_answered() {
    let served = Served::start(&["--token", TOKEN, "--origin", NAMED]);
    let ask = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: \
               authorization, content-type, last-event-id\r\n";
    let origin = |origin: &str| format!("Origin: {origin}\r\nSec-Fetch-Site: cross-site\r\n");
    let preflight =
        send(&served.address, "OPTIONS /api/sessions", &format!("{}{ask}", origin(NAMED)));
    assert_eq!(preflight.status, 200);
    let allows = |response: &Response, header: &str| response.head.contains(header);
    assert!(allows(&preflight, &format!("access-control-allow-origin: {NAMED}")));
    assert!(allows(&preflight, "access-control-allow-headers: authorization,content-type,last-ev"));
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    for (headers, status) in
        [(token.clone(), 200), (String::new(), 401), ("Authorization: Bearer x\r\n".into(), 401)]
    {
        let response =
            send(&served.address, "GET /api/sessions", &format!("{}{headers}", origin(NAMED)));
        assert_eq!(response.status, status, "{headers}");
        assert!(allows(&response, "access-control-allow-origin"), "{}", response.head);
    }
    for foreign in ["https://app.example.org.evil.example", "http://app.example.org", "null"] {
        for line in ["OPTIONS /api/sessions", "GET /api/sessions"] {
            let headers = format!("{}{ask}{token}", origin(foreign));
            let response = send(&served.address, line, &headers);
            assert!(!allows(&response, "access-control-allow-origin"), "{line}: {}", response.head);
            assert!(line.starts_with("OPTIONS") || response.status == 403, "{foreign}");
        }
    }
}

/// An invalid origin would never match, so it is refused at the start.
#[test]
fn what_is_no_origin_is_refused() {
    let dir = loopwright_test_support::process::project();
    for origin in ["*", "app.example.org", "https://app.example.org/", "https://App.example.org"] {
        let exit = BIN.run(&dir, &["serve", "--addr", "127.0.0.1:0", "--origin", origin]);
        assert!(exit.code != 0 && exit.err.contains(&format!("`{origin}`")), "{exit:?}");
    }
    let exit = BIN.run(&dir, &["serve", "--addr", "127.0.0.1:0", "--origin", NAMED]);
    assert!(exit.code != 0 && exit.err.contains("need a token"), "{exit:?}");
}

/// C198: Who was refused and why is logged, without what was sent as a token.
#[test]
fn refusals_are_logged() {
    let Served { process, address, dir, model } =
        Served::start(&["--token", TOKEN, "--origin", NAMED]);
    let preflight = "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    send(&address, "OPTIONS /api/sessions", preflight);
    for (headers, status) in [
        ("Authorization: Bearer guessed-wrong\r\n", 401),
        ("Origin: https://evil.example\r\n", 403),
    ] {
        assert_eq!(send(&address, "GET /api/sessions", headers).status, status);
    }
    process.interrupt();
    let log = process.end().err;
    let refusals: Vec<&str> = log.lines().filter(|line| line.contains("was refused")).collect();
    let [preflight, token, origin] = &refusals[..] else { panic!("{log}") };
    assert!(preflight.contains("127.0.0.1") && preflight.contains("evil.example"), "{preflight}");
    assert!(token.contains("127.0.0.1") && token.contains("/api/sessions"), "{token}");
    assert!(token.contains("The token is missing or wrong"), "{token}");
    assert!(
        origin.contains("127.0.0.1") && origin.contains("A page of another origin"),
        "{origin}"
    );
    assert!(!log.contains("guessed-wrong"), "{log}");
    drop((dir, model));
}
