//! A conversation is sent where it began, whatever the environment and the settings say later.

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::{Value, json};

use crate::BIN;

const CONFIG: &str = "own.toml";

/// C286: a conversation that began with a model on this machine is never sent to another address,
/// in `run`, `chat` and `serve`: not if the address is set later, in a file or the environment.
#[test]
fn a_local_conversation_stays_on_this_machine() {
    let (project, other) = (project(), Server::start());
    let run = |args: &[&str], vars: &[(&str, &str)]| -> Exit {
        BIN.start_with(&project, &[&["run", "--session", "s"], args].concat(), vars).end()
    };
    // Whether or not an Ollama runs here, it has no such model.
    run(&["--model", "ollama/no-such-model", "--max-attempts", "1", "Hello"], &[]);
    let exported = BIN.run(&project, &["sessions", "export", "s"]).out;
    assert!(exported.contains("http://127.0.0.1:11434/v1"), "{exported}");
    let moved = format!("model = \"ollama/no-such-model\"\nbase_url = \"{}\"", other.url);
    let path = project.path().join(CONFIG);
    std::fs::write(&path, moved).unwrap();
    let vars = [("OLLAMA_HOST", &*other.url), ("LOOPWRIGHT_CONFIG", path.to_str().unwrap())];
    let exit = run(&["And now?"], &vars);
    assert_ne!(exit.code, 0, "{exit:?}");
    let mut chat = BIN.start_with(&project, &["chat", "--session", "s"], &vars);
    chat.line("Hello");
    chat.close();
    assert!(other.is_unasked(), "the conversation was sent elsewhere");
}

/// C286: offline rules, which have no address, are not replaced by a server at an address that the
/// settings give them later, in `run`, `approve` and `serve`.
#[test]
fn a_model_without_an_address_gets_none_later() {
    const TOKEN: &str = "correct-horse-battery";
    let (project, other) = (project(), Server::start());
    let path = project.path().join(CONFIG);
    let vars = [("LOOPWRIGHT_CONFIG", path.to_str().unwrap()), ("PATH", "/usr/bin:/bin")];
    let start = |args: &[&str]| BIN.start_with(&project, args, &vars);
    std::fs::write(&path, "").unwrap();
    let first = ["run", "--session", "s", "--model", "offline", "Create a.txt with \"hi\""];
    let exit = start(&first).end();
    assert_eq!(exit.code, 3, "{exit:?}");
    std::fs::write(&path, format!("model = \"offline\"\nbase_url = \"{}\"", other.url)).unwrap();
    let shown = start(&["config", "--session", "s"]).end().out;
    assert!(!shown.contains(&other.url), "{shown}");
    let pending: Value = serde_json::from_str(&start(&["actions", "--json"]).end().out).unwrap();
    let exit = start(&["approve", "s", pending["call"].as_str().unwrap()]).end();
    assert_eq!(exit.code, 0, "{exit:?}");
    let exit = start(&["run", "--session", "s", "Read a.txt"]).end();
    assert!(exit.code == 0 && exit.out.contains("hi"), "{exit:?}");

    let mut server = start(&["serve", "--addr", "127.0.0.1:0", "--token", TOKEN]);
    let address = server.err.word_after("http://");
    let headers = format!("Authorization: Bearer {TOKEN}\r\n");
    let prompt = json!({ "message": "Read a.txt" }).to_string();
    let sent = Connection::post(&address, "/api/sessions/s/prompt", &headers, &prompt);
    assert_eq!({ sent }.response().unwrap().status, 202);
    let events = format!("GET /api/sessions/s/events HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    let mut reader = Connection::open(&address);
    reader.send(events.as_bytes());
    assert_eq!(reader.head().unwrap().0, 200);
    let mut ends = 0;
    while ends < 4 {
        // The two runs of the command line, the run of the approval, and this one.
        let frame = reader.frame().unwrap();
        ends += usize::from(frame.contains("event: agent_end"));
    }
    assert!(other.is_unasked(), "the conversation was sent elsewhere");
}
