//! Two servers of the app on one file, with a model and a bank that the tests control.

use std::time::Instant;

use loopwright_test_support::TEST_TIMEOUT;
use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::{Exchange, Server};
use loopwright_test_support::process::Process;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::BIN;
use crate::bank::Bank;

pub(crate) struct World {
    pub(crate) model: Server,
    pub(crate) bank: Bank,
    pub(crate) session: String,
    one: Option<Process>,
    _two: Process,
    addresses: [String; 2],
    _dir: TempDir,
}

/// The index of the first server.
pub(crate) const ONE: usize = 0;
pub(crate) const TWO: usize = 1;

impl World {
    /// Starts both servers. Actions are denied after `deadline` seconds. Ann has a session on the
    /// first.
    pub(crate) fn new(deadline: &str) -> World {
        let (dir, model, bank) = (tempfile::tempdir().unwrap(), Server::start(), Bank::open());
        let user = |name: &str, roles: &str| {
            let digest = Sha256::digest(token(name)).into_iter().map(|byte| format!("{byte:02x}"));
            format!("{name}:{}{roles}", digest.collect::<String>())
        };
        let (ann, bob) = (user("ann", ""), user("bob", ":treasurer"));
        let carol = user("carol", ":director,treasurer");
        let args = ["serve", "--addr", "127.0.0.1:0", "--store", "sessions.db"];
        let users = ["--user", &ann, "--user", &bob, "--user", &carol];
        let options =
            ["--model", "local/x", "--base-url", &model.url, "--token", &token("operator")];
        let args = [&args[..], &users, &options].concat();
        let vars = [("BANK", &*bank.address), ("DEADLINE", deadline)];
        let start = || {
            let mut served = BIN.start_with(&dir, &args, &vars);
            let url = served.err.word_after("Serving at ");
            (served, url.trim_start_matches("http://").trim_end_matches('/').to_owned())
        };
        let ((one, first), (two, second)) = (start(), start());
        let addresses = [first, second];
        let (one, session) = (Some(one), String::new());
        let mut world = World { model, bank, session, one, _two: two, addresses, _dir: dir };
        let (status, created) = world.request(ONE, "ann", "/api/sessions", &json!({}));
        assert_eq!(status, 201, "{created}");
        world.session = created["id"].as_str().unwrap().to_owned();
        world
    }

    /// Sends a user's request. Returns the status and the body of the response.
    fn request(&self, server: usize, user: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut sent = self.send(server, user, path, body);
        let response = sent.response().unwrap();
        (response.status, serde_json::from_str(&response.body).unwrap_or_default())
    }

    fn send(&self, server: usize, user: &str, path: &str, body: &Value) -> Connection {
        let header = format!("Authorization: Bearer {}\r\n", token(user));
        Connection::post(&self.addresses[server], path, &header, &body.to_string())
    }

    /// Sends an input to the session.
    pub(crate) fn post(&self, server: usize, user: &str, path: &str, body: &Value) -> (u16, Value) {
        self.request(server, user, &format!("/api/sessions/{}/{path}", self.session), body)
    }

    /// Lets the model make calls for a prompt of ann on the first server, once it is idle.
    pub(crate) fn ask(&self, calls: &[(&str, Value)]) {
        self.until_idle();
        let prompt = json!({ "message": "Do it." });
        assert_eq!(self.post(ONE, "ann", "prompt", &prompt).0, 202);
        self.model.request().call(calls);
    }

    fn until_idle(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let path = format!("/api/sessions/{}", self.session);
        while self.get(ONE, "ann", &path)["running"] != false {
            assert!(Instant::now() < deadline, "the run does not end");
        }
    }

    fn get(&self, server: usize, user: &str, path: &str) -> Value {
        let (address, token) = (&self.addresses[server], token(user));
        let mut connection = Connection::open(address);
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
        connection.send(format!("GET {path} HTTP/1.1\r\n{head}\r\n").as_bytes());
        serde_json::from_str(&connection.response().unwrap().body).unwrap()
    }

    /// Returns the actions that a user sees on the second server.
    pub(crate) fn actions(&self, user: &str) -> Vec<Value> {
        let listed = self.get(TWO, user, "/api/actions");
        listed["actions"].as_array().unwrap_or_else(|| panic!("{listed}")).clone()
    }

    /// Waits until `count` actions are pending.
    pub(crate) fn pending(&self, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let actions = self.actions("operator");
            if actions.len() == count {
                return actions;
            }
            assert!(Instant::now() < deadline, "{actions:?}");
        }
    }

    /// Decides an action on the second server.
    pub(crate) fn decide(&self, user: &str, action: &Value, decision: Value) -> (u16, Value) {
        let (path, body) = resolution(action, decision);
        self.post(TWO, user, &path, &body)
    }

    /// Sends a decision through the second server, without waiting for the response.
    pub(crate) fn send_decision(&self, user: &str, action: &Value, decision: Value) -> Connection {
        let (path, body) = resolution(action, decision);
        self.send(TWO, user, &format!("/api/sessions/{}/{path}", self.session), &body)
    }

    /// Kills the first server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.one.take().unwrap().kill();
    }

    /// Continues the session on the second server, which may have begun already. Returns the next
    /// request to the model.
    pub(crate) fn recover(&self) -> Exchange {
        let (status, why) = self.post(TWO, "ann", "continue", &json!({}));
        assert!([202, 409].contains(&status), "{status} {why}");
        self.model.request()
    }
}

/// Returns the token of a user.
fn token(user: &str) -> String {
    format!("token-of-{user:-<12}")
}

fn resolution(action: &Value, mut decision: Value) -> (String, Value) {
    decision["digest"] = action["digest"].clone();
    (format!("actions/{}", action["call"].as_str().unwrap()), decision)
}
