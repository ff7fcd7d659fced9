//! The operator's rules for clients: the flags of `serve`, its settings, and the defaults.

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Process, project};
use serde_json::{Value, json};

use super::KEY;
use crate::BIN;

const TOKEN: &str = "correct-horse-battery";

/// A server with these options, which clients reach at this machine's address.
struct Ruled {
    process: Process,
    _dir: tempfile::TempDir,
    address: String,
    model: Server,
}

impl Ruled {
    fn start(args: &[&str], settings: &str) -> Ruled {
        let (dir, model) = (project(), Server::start());
        std::fs::write(dir.path().join("own.toml"), settings).unwrap();
        let path = dir.path().join("own.toml").display().to_string();
        let args = [&["serve", "--token", TOKEN], args].concat();
        let mut process = BIN.start_with(&dir, &args, &[("LOOPWRIGHT_CONFIG", &path)]);
        let port = process.err.word_after("http://").rsplit(':').next().unwrap().to_owned();
        Ruled { process, _dir: dir, address: format!("127.0.0.1:{port}"), model }
    }

    fn post(&self, path: &str, body: &Value) -> Connection {
        let headers = format!("Authorization: Bearer {TOKEN}\r\n");
        Connection::post(&self.address, path, &headers, &body.to_string())
    }

    /// Returns the status of a response, and the path of the refused field.
    fn refused(&self, path: &str, body: &Value) -> (u16, String) {
        let response = self.post(path, body).response().unwrap();
        let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
        (response.status, body["error"]["path"].as_str().unwrap_or_default().to_owned())
    }

    fn chat(&self) -> Value {
        let config = json!({ "apiKey": KEY, "model": "custom/m", "baseUrl": self.model.url });
        json!({ "message": "Hello", "workDir": ".", "llmConfig": config })
    }
}

/// C256–C259: beyond this machine clients may name public addresses only and approve nothing for
/// good, unless flags or settings allow it; on this machine both are allowed, unless a proxy lets
/// others reach it or the server has other users than its operator (C284).
#[test]
fn rules_are_strict_where_others_reach_the_server() {
    const LOCAL: &str = "127.0.0.1:0";
    const ALL: &str = "0.0.0.0:0";
    let user = format!("ann:{}", "0".repeat(64));
    let issuer = ["--jwt-issuer", "https://id.example.org", "--jwt-audience", "loopwright"];
    let others = match cfg!(feature = "oidc") {
        true => [&["--addr", LOCAL][..], &issuer].concat(),
        false => vec!["--addr", LOCAL, "--user", &user],
    };
    let own = "[serve]\nallow_approve = \"all\"\nallow_address = [\"127.0.0.0/8\"]";
    let flags = ["--addr", ALL, "--allow-approve", "write_file", "--allow-address", "127.0.0.1"];
    for (args, settings, approves, reaches) in [
        (&["--addr", LOCAL][..], "", true, true),
        (&["--addr", ALL], "", false, false),
        (&["--addr", LOCAL, "--trusted-proxy", "10.0.0.1"], "", false, false),
        (&["--addr", LOCAL, "--user", &user], "", false, false),
        (&["--addr", LOCAL, "--user", &user, "--allow-approve", "all"], "", true, false),
        (&others, "", false, false),
        (&["--addr", LOCAL, "--allow-approve", "none"], "", false, true),
        (&flags, "", true, true),
        (&["--addr", ALL], own, true, true),
    ] {
        let ruled = Ruled::start(args, settings);
        let approved = json!({ "model": "offline", "approve": ["write_file"] });
        let expected = if approves { (201, "") } else { (403, "/approve/0") };
        let (status, path) = ruled.refused("/api/sessions", &approved);
        assert_eq!((status, &*path), expected, "{args:?} {settings}");
        if reaches {
            let mut connection = ruled.post("/api/agent-chat", &ruled.chat());
            ruled.model.request().say("Here.");
            assert_eq!(connection.head().unwrap().0, 200, "{args:?}");
            assert_eq!(connection.event_of("content")["content"], "Here.", "{args:?}");
        } else {
            let refused = ruled.refused("/api/agent-chat", &ruled.chat());
            assert_eq!(refused, (403, "/llmConfig/baseUrl".into()), "{args:?}");
        }
    }
}

/// C256, C259, C260: models, what a session uses, bodies and open sessions are bounded by flags and
/// by settings.
#[test]
fn flags_and_settings_bound_what_clients_use() {
    let flags = [
        "--addr",
        "127.0.0.1:0",
        "--model",
        "offline",
        "--allow-model",
        "custom/*",
        "--max-session-turns",
        "1",
        "--max-body",
        "1000",
        "--max-open-sessions",
        "2",
    ];
    let own = "model = \"offline\"\n[serve]\naddr = \"127.0.0.1:0\"\nallow_model = \"custom/*\"\n\
               max_session_turns = 1\nmax_body = 1000\nmax_open_sessions = 2";
    for (args, settings) in [(&flags[..], ""), (&[], own)] {
        let ruled = Ruled::start(args, settings);
        let other = json!({ "model": "openai/gpt-5-pro" });
        assert_eq!(ruled.refused("/api/sessions", &other), (403, "/model".into()), "{settings}");
        let mut chat = ruled.chat();
        chat["llmConfig"]["provider"] = json!("openai");
        assert_eq!(ruled.refused("/api/agent-chat", &chat), (403, "/llmConfig/model".into()));
        let long = json!({ "system": "n".repeat(1000) });
        assert_eq!(ruled.refused("/api/sessions", &long).0, 413);

        let headers = format!("Authorization: Bearer {TOKEN}\r\nHost: {}\r\n", ruled.address);
        let mut readers = Vec::new();
        for _ in 0..2 {
            let response = ruled.post("/api/sessions", &json!({})).response().unwrap();
            let id: Value = serde_json::from_str(&response.body).unwrap();
            let id = id["id"].as_str().unwrap().to_owned();
            let mut reader = Connection::open(&ruled.address);
            reader.send(
                format!("GET /api/sessions/{id}/events HTTP/1.1\r\n{headers}\r\n").as_bytes(),
            );
            assert_eq!(reader.head().unwrap().0, 200);
            readers.push((id, reader));
        }
        assert_eq!(ruled.refused("/api/sessions", &json!({})).0, 429, "two are in use");
        let (id, reader) = &mut readers[0];
        for (message, end) in [("Hello", "\"done\""), ("Again", "\"session_turns\"")] {
            let path = format!("/api/sessions/{id}/prompt");
            assert_eq!(ruled.refused(&path, &json!({ "message": message })).0, 202);
            let frame = std::iter::from_fn(|| reader.frame());
            let last = frame.into_iter().find(|frame| frame.contains("event: agent_end"));
            assert!(last.as_ref().unwrap().contains(end), "{last:?}");
        }
    }
}

/// A rule that cannot be read is an error before anything is served.
#[test]
fn invalid_rules_are_errors() {
    for (args, what) in [
        (["--allow-model", "*/x"], "no pattern of models"),
        (["--allow-address", "http://box.lan/v1"], "no address"),
        (["--trusted-proxy", "proxy.lan"], "no proxy"),
    ] {
        let run = BIN.start(&project(), &[&["serve"], &args[..]].concat()).end();
        assert!(run.code == 2 && run.err.contains(what), "{run:?}");
    }
}

/// C284: everybody behind a proxy would be the operator of a server without a token.
#[test]
fn a_server_behind_a_proxy_does_not_start_without_a_token() {
    let args = ["serve", "--addr", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1"];
    let run = BIN.start(&project(), &args).end();
    assert!(run.code == 2 && run.err.contains("needs a token"), "{run:?}");
}

/// C261: the log names the client behind a trusted proxy, and the reason for the refusal.
#[test]
fn a_refusal_is_logged_with_the_client_behind_the_proxy() {
    for (proxy, client) in [("127.0.0.1", "203.0.113.9"), ("10.0.0.1", "127.0.0.1")] {
        let ruled = Ruled::start(&["--addr", "127.0.0.1:0", "--trusted-proxy", proxy], "");
        let body = json!({ "approve": ["all"] }).to_string();
        let headers = format!(
            "Authorization: Bearer {TOKEN}\r\nX-Forwarded-For: 198.51.100.1, 203.0.113.9\r\n"
        );
        let mut connection = Connection::post(&ruled.address, "/api/sessions", &headers, &body);
        assert_eq!(connection.response().unwrap().status, 403);
        ruled.process.interrupt();
        let log = ruled.process.end().err;
        let line = log.lines().find(|line| line.contains("a request was refused")).unwrap();
        assert!(line.contains(client) && line.contains("/approve/0"), "{line}");
        assert!(line.contains("the operator"), "{line}");
        assert!(!line.contains(TOKEN) && !line.contains("198.51.100.1"), "{line}");
    }
}
