//! `serve`, live sessions: the server is killed or asked to stop during a run, and another server
//! continues the session.

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Process, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// A server of sessions over the store in the directory.
pub(crate) struct Live {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Live {
    pub(crate) fn start(dir: &TempDir, model: &Server) -> Live {
        Live::start_as(dir, model, &[], &[])
    }

    /// Starts the server as an argument of this command, with these options.
    pub(crate) fn start_as(dir: &TempDir, model: &Server, command: &[&str], more: &[&str]) -> Live {
        let args =
            ["serve", "--addr", "127.0.0.1:0", "--model", "custom/test", "--base-url", &model.url];
        let args = [&args, more].concat();
        let mut process = BIN.start_as(dir, command, &args, &[("PATH", "/usr/bin:/bin")]);
        let address = process.err.word_after("http://");
        Live { process, address }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let response =
            Connection::post(&self.address, path, "", &body.to_string()).response().unwrap();
        assert!(response.status < 300, "{path}: {response:?}");
        serde_json::from_str(&response.body).unwrap()
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> Connection {
        let mut connection = Connection::open(&self.address);
        connection.send(
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address).as_bytes(),
        );
        connection
    }

    /// Requests a path through a connection with little room.
    #[cfg(target_os = "linux")]
    pub(crate) fn get_narrow(&self, path: &str) -> Connection {
        let mut connection = Connection::open_narrow(&self.address);
        connection
            .send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes());
        connection
    }

    fn session(&self, id: &str) -> Value {
        serde_json::from_str(&self.get(&format!("/api/sessions/{id}"), "").response().unwrap().body)
            .unwrap()
    }

    /// Creates a session with these settings, connects to its events, and sends a prompt.
    fn prompted(&self, settings: &Value, message: &str) -> (String, Screen, Connection) {
        let id = self.post("/api/sessions", settings)["id"].as_str().unwrap().to_owned();
        let events = self.events(&id, 0);
        self.post(&format!("/api/sessions/{id}/prompt"), &json!({ "message": message }));
        (id, Screen::default(), events)
    }

    /// Connects to the events after the sequence number `last`.
    pub(crate) fn events(&self, id: &str, last: u64) -> Connection {
        let last = if last == 0 { String::new() } else { format!("Last-Event-ID: {last}\r\n") };
        let mut connection = self.get(&format!("/api/sessions/{id}/events"), &last);
        assert_eq!(connection.head().unwrap().0, 200);
        connection
    }
}

/// The state of a page, built from the received events.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    pub(crate) seq: u64,
    streaming: String,
    pub(crate) messages: Vec<Value>,
    outputs: String,
}

impl Screen {
    /// Reads up to an event of this type and returns its data.
    pub(crate) fn until(&mut self, connection: &mut Connection, kind: &str, has: &str) -> Value {
        loop {
            let (event, data) =
                self.read(connection).unwrap_or_else(|| panic!("no {kind} came: {self:?}"));
            if event == kind && data.to_string().contains(has) {
                return data;
            }
        }
    }

    pub(crate) fn read(&mut self, connection: &mut Connection) -> Option<(String, Value)> {
        let frame = connection.frame()?;
        let field =
            |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let (event, data) = (
            field("event:").unwrap(),
            serde_json::from_str::<Value>(field("data:").unwrap()).unwrap(),
        );
        if let Some(id) = field("id:") {
            self.seq += 1;
            assert_eq!(id, self.seq.to_string(), "an event is lost or doubled: {frame}");
        }
        match event {
            "message_update" if data["kind"] == "withdrawn" => self.streaming.clear(),
            "message_update" => self.streaming += data["delta"].as_str().unwrap_or_default(),
            "message_end" => {
                self.streaming.clear();
                self.messages.push(data["message"].clone());
            }
            "tool_execution_update" => self.outputs += &data["update"].to_string(),
            _ => {}
        }
        Some((event.to_owned(), data))
    }
}

/// C101: the server is killed during a reply; the next server withdraws the partial reply and
/// continues.
#[test]
fn a_server_that_is_killed_in_a_reply_loses_and_doubles_nothing() {
    let (dir, model) = (project(), Server::start());
    let live = Live::start(&dir, &model);
    let (id, mut screen, mut events) = live.prompted(&json!({ "workDir": dir.path() }), "Talk");
    let mut request = model.request();
    request.begin();
    request.text("Once upon ");
    request.text("a time");
    screen.until(&mut events, "message_update", "a time");
    assert_eq!(screen.streaming, "Once upon a time");
    live.process.signal("-KILL");
    live.process.end();

    let live = Live::start(&dir, &model);
    assert_eq!(live.session(&id)["interrupted"], true);
    let mut events = live.events(&id, screen.seq);
    screen.until(&mut events, "message_update", "withdrawn");
    live.post(&format!("/api/sessions/{id}/continue"), &json!({}));
    model.request().say("The end.");
    let end = screen.until(&mut events, "agent_end", "");
    assert_eq!((&end["end"], &end["text"]), (&json!("done"), &json!("The end.")));
    let stored = live.get(&format!("/api/sessions/{id}/messages"), "").response().unwrap();
    let stored: Value = serde_json::from_str(&stored.body).unwrap();
    assert_eq!(
        (&stored["messages"], &stored["seq"]),
        (&json!(screen.messages), &json!(screen.seq))
    );
    let mut fresh = Screen::default();
    fresh.until(&mut live.events(&id, 0), "agent_end", "");
    assert_eq!((fresh.seq, fresh.messages), (screen.seq, screen.messages));
}

/// C99: a conversation that was started in the terminal with a model on this machine reaches no
/// other model when it is continued in the browser.
#[test]
fn a_conversation_stays_with_the_server_of_its_model() {
    let (dir, local, hosted) = (project(), Server::start(), Server::start());
    let args =
        ["run", "--session", "mine", "--model", "custom/own", "--base-url", &local.url, "Hello"];
    let run = BIN.start(&dir, &args);
    local.request().say("Hello to you.");
    assert_eq!(run.end().code, 0);

    let live = Live::start(&dir, &hosted);
    let (mut screen, mut events) = (Screen::default(), live.events("mine", 0));
    live.post("/api/sessions/mine/prompt", &json!({ "message": "Is this still you?" }));
    local.request().say("It is.");
    while screen.messages.len() < 4 {
        screen.read(&mut events).unwrap();
    }
    assert_eq!(screen.messages[3]["parts"][0]["text"], "It is.");

    let id = live.post("/api/sessions", &json!({ "model": "custom/test" }))["id"].clone();
    let path = format!("/api/sessions/{}/prompt", id.as_str().unwrap());
    live.post(&path, &json!({ "message": "And you?" }));
    hosted.request().say("I am the server's own model.");
}

/// C101: the server is killed while a command runs. The command's outcome is unknown, it is not run
/// again, and the sequence numbers continue.
#[test]
fn a_server_that_is_killed_in_a_command_does_not_rerun_it() {
    let (dir, model) = (project(), Server::start());
    let live = Live::start(&dir, &model);
    let settings = json!({ "workDir": dir.path(), "approve": ["execute_command"] });
    let (id, mut screen, mut events) = live.prompted(&settings, "Run it");
    let command = "echo once >> runs.txt; echo started; sleep 60";
    model.request().call(&[("execute_command", json!({ "command": command }))]);
    while !screen.outputs.contains("started") {
        screen.read(&mut events).unwrap();
    }
    // A second client that connects now receives the output so far.
    let (mut second, mut late) = (Screen::default(), live.events(&id, 0));
    while !second.outputs.contains("started") {
        second.read(&mut late).unwrap();
    }
    live.process.signal("-KILL");
    live.process.end();

    let live = Live::start(&dir, &model);
    let mut events = live.events(&id, screen.seq);
    live.post(&format!("/api/sessions/{id}/continue"), &json!({}));
    let request = model.request();
    assert!(request.last().contains("outcome is unknown"), "{}", request.last());
    request.say("I will look.");
    assert_eq!(screen.until(&mut events, "agent_end", "")["end"], "done");
    assert_eq!(std::fs::read_to_string(dir.path().join("runs.txt")).unwrap(), "once\n");
}

/// C104: on a stop request the server informs its readers, lets the run end, closes the streams and
/// exits; the session can be opened afterwards.
#[test]
fn a_server_that_shuts_down_lets_the_run_end() {
    let (dir, model) = (project(), Server::start());
    let live = Live::start(&dir, &model);
    let (id, mut screen, mut events) = live.prompted(&json!({ "workDir": dir.path() }), "Talk");
    let mut request = model.request();
    request.begin();
    request.text("Once ");
    screen.until(&mut events, "message_update", "Once ");
    live.process.signal("-TERM");
    screen.until(&mut events, "draining", "");
    let path = format!("/api/sessions/{id}/prompt");
    let refused =
        Connection::post(&live.address, &path, "", r#"{"message": "More"}"#).response().unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    request.text("more.");
    request.end("stop");
    assert_eq!(screen.until(&mut events, "agent_end", "")["end"], "done");
    assert!(screen.read(&mut events).is_none(), "the stream ends");
    assert_eq!(live.process.end().code, 0);
    let live = Live::start(&dir, &model);
    let session = live.session(&id);
    assert_eq!(
        (&session["interrupted"], &session["session"]["title"]),
        (&json!(false), &json!("Talk"))
    );
}

/// C486: Without a model, `serve` chooses one as the chat does, and says which.
#[test]
fn a_server_without_a_model_has_the_one_of_a_chat() {
    let dir = project();
    let mut process = BIN.start(&dir, &["serve", "--addr", "127.0.0.1:0"]);
    process.err.until("There is no model, so offline rules answer.");
    let address = process.err.word_after("http://");
    let live = Live { process, address };
    let (_, mut screen, mut events) = live.prompted(&json!({}), "What are you?");
    let end = screen.until(&mut events, "agent_end", "");
    assert!(end["text"].as_str().unwrap().contains("offline rules"), "{end}");
}
