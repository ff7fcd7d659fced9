//! `loopwright serve`, with a local model server. This file starts both; the tests are in
//! the modules below.

mod attacks;
mod daily_use;
mod errors;
mod faults;
mod hostile_models;
mod jail;
mod memory;
mod origins;
mod route;
mod rules;
pub(crate) mod sessions;
mod settings_file;
mod shared;
mod shutdown;
mod users;

use loopwright_test_support::http::{Connection, Response};
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Process, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// The key that no log, error or event may contain.
pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// A server for one directory, and its model server.
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) dir: TempDir,
    pub(crate) model: Server,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(args: &[&str]) -> Served {
        Served::start_with(args, &[])
    }

    /// Starts the server with these additional environment variables.
    pub(crate) fn start_with(args: &[&str], vars: &[(&str, &str)]) -> Served {
        let (dir, model) = (project(), Server::start());
        let args = [&["serve", "--addr", "127.0.0.1:0"], args].concat();
        let mut process =
            BIN.start_with(&dir, &args, &[&[("PATH", "/usr/bin:/bin")], vars].concat());
        let address = process.err.word_after("http://");
        Served { process, dir, model, address }
    }

    /// Starts the server with a model of its own, and with these environment variables.
    pub(crate) fn start_own(args: &[&str], vars: &[(&str, &str)]) -> Served {
        let (dir, model) = (project(), Server::start());
        let own = ["serve", "--addr", "127.0.0.1:0", "--model", "custom/m", "--base-url"];
        let args = [&own[..], &[&model.url], args].concat();
        let vars = [&[("PATH", "/usr/bin:/bin")], vars].concat();
        let mut process = BIN.start_with(&dir, &args, &vars);
        let address = process.err.word_after("http://");
        Served { process, dir, model, address }
    }

    /// Returns a request body with this message; `fields` override the default ones.
    pub(crate) fn body(&self, message: &str, fields: &Value) -> Value {
        let url = &self.model.url;
        let config = json!({
            "apiKey": KEY, "model": "test-model", "baseUrl": url, "provider": "openai"
        });
        let mut body =
            json!({ "message": message, "workDir": self.dir.path(), "llmConfig": config });
        for (name, value) in fields.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    }

    /// Sends a request and returns the connection once the stream has started.
    pub(crate) fn ask(&self, message: &str, fields: &Value) -> Connection {
        let mut connection = self.post(&self.body(message, fields));
        let (status, head) = connection.head().unwrap();
        assert_eq!(status, 200, "{head}");
        connection
    }

    pub(crate) fn post(&self, body: &Value) -> Connection {
        Connection::post(&self.address, "/api/agent-chat", "", &body.to_string())
    }

    /// Returns the response to a request that is refused.
    pub(crate) fn refused(&self, body: &Value) -> Response {
        self.post(body).response().unwrap()
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

/// C224: two servers, a chat and commands on one SQLite file: each input arrives exactly once, and
/// both servers answer the same, while processes are killed.
#[test]
fn every_input_arrives_once_through_every_process_while_processes_are_killed() {
    shared::check(&project(), &[]);
}
