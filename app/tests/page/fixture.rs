//! The fixture of a test: a server with a project and a model, a browser, and a relay between them
//! whose connections break.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use loopwright_core::log::{InMemory, LogEntry};
use loopwright_core::{GenericAgent, Memory, RunContext, SessionStore};
use loopwright_memory::Sqlite;
use loopwright_memory::long_term::{LongTerm, Scope};
use loopwright_test_support::browser::{Browser, Tab};
use loopwright_test_support::model_server::{Exchange, Server};
use loopwright_test_support::process::{Process, STORE, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// The directory of the data that is not in the store.
const DATA: &str = ".kept/data";

pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) url: String,
    model: Server,
    browser: Rc<Browser>,
    process: RefCell<Option<Process>>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(&[])
    }

    /// Starts `loopwright serve` with further options.
    pub(crate) fn with(more: &[&str]) -> Fixture {
        Fixture::at(project(), more)
    }

    /// Creates the session `before` with `asked` requests, which an agent in this process has
    /// answered.
    pub(crate) fn after(agent: &GenericAgent, asked: usize) -> Fixture {
        Fixture::after_with(agent, asked, &[])
    }

    /// Like [`Fixture::after`], with further options of `loopwright serve`.
    pub(crate) fn after_with(agent: &GenericAgent, asked: usize, more: &[&str]) -> Fixture {
        let context = RunContext::new().settings(json!({ "agent": "coding" }));
        Fixture::after_in(context, agent, asked, more)
    }

    /// Like [`Fixture::after_with`], with this context for the session.
    pub(crate) fn after_in(
        context: RunContext,
        agent: &GenericAgent,
        asked: usize,
        more: &[&str],
    ) -> Fixture {
        let (dir, memory) = (project(), InMemory::new());
        wait(async {
            let (handle, _events) = agent.run(context.memory(memory.clone())).await.unwrap();
            for number in 1..=asked {
                handle.prompt(format!("Request {number}.")).await.unwrap();
            }
            handle.close().await;
        });
        write(&dir, memory.entries());
        Fixture::at(dir, more)
    }

    fn at(dir: TempDir, more: &[&str]) -> Fixture {
        let model = Server::start();
        let mut process = serve(&dir, &model, "127.0.0.1:0", more);
        let url = process.err.word_after("Serving at ");
        Fixture { dir, url, model, browser: Browser::start(), process: RefCell::new(Some(process)) }
    }

    /// `kill -9`s the server.
    pub(crate) fn kill(&self) {
        self.process.take().unwrap().kill();
    }

    /// Restarts the server at the same address.
    pub(crate) fn restart(&self) {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut process = serve(&self.dir, &self.model, address, &[]);
        process.err.until("Serving at ");
        self.process.replace(Some(process));
    }

    /// Starts `loopwright run`, with the store and the model of the server.
    pub(crate) fn run(&self, session: &str, message: &str) -> Process {
        let model = ["--model", "local/scripted", "--base-url", &self.model.url];
        let args = [&["run", "--session", session], &model[..], &[message]].concat();
        BIN.start_with(&self.dir, &args, &[])
    }

    /// Opens a tab with the page.
    pub(crate) fn tab(&self) -> Tab {
        self.browser.tab(&self.url)
    }

    /// Opens a tab with the session `before`.
    pub(crate) fn before(&self) -> Tab {
        self.browser.tab(&format!("{}/#s=before", self.url.trim_end_matches('/')))
    }

    /// Returns the log of the session `before`.
    pub(crate) fn log(&self) -> Vec<LogEntry> {
        wait(store(&self.dir).read("before", 0)).unwrap()
    }

    /// Replaces the log of the session `before`.
    pub(crate) fn rewrite(&self, items: Vec<LogEntry>) {
        wait(store(&self.dir).delete("before")).unwrap();
        write(&self.dir, items);
    }

    /// Opens the session `before` in this process until the returned value is dropped.
    pub(crate) fn hold(&self) -> Arc<dyn Memory> {
        wait(store(&self.dir).open("before")).unwrap()
    }

    /// Opens a tab at this address.
    pub(crate) fn tab_at(&self, url: &str) -> Tab {
        self.browser.tab(url)
    }

    /// Returns the next request to the model.
    pub(crate) fn request(&self) -> Exchange {
        self.model.request()
    }

    /// Stores facts about the user, as sessions do.
    pub(crate) fn remember(&self, facts: impl IntoIterator<Item = String>) {
        let file = self.dir.path().join(DATA).join("loopwright/memory.db");
        let (memory, scope) = (LongTerm::open(file).unwrap(), Scope::user("local"));
        wait(async {
            for fact in facts {
                memory.remember(&scope, fact).await.unwrap();
            }
        });
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.dir.path().join(name), content).unwrap();
    }
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn store(dir: &TempDir) -> Sqlite {
    Sqlite::open(dir.path().join(STORE)).unwrap()
}

fn write(dir: &TempDir, items: Vec<LogEntry>) {
    let store = store(dir);
    wait(async { store.open("before").await.unwrap().append(0, items.into()).await.unwrap() });
}

fn serve(dir: &TempDir, model: &Server, address: &str, more: &[&str]) -> Process {
    let args = ["serve", "--addr", address, "--model", "local/scripted", "--base-url", &model.url];
    let data = dir.path().join(DATA);
    BIN.start_with(dir, &[&args, more].concat(), &[("XDG_DATA_HOME", data.to_str().unwrap())])
}

/// Returns the arguments of an `edit_file` call that changes the project.
pub(crate) fn edit(new: &str) -> Value {
    json!({ "path": "Cargo.toml", "old_string": "sheep", "new_string": new })
}

/// A relay of connections to a server, which breaks them on demand.
pub(crate) struct Relay {
    pub(crate) url: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub(crate) fn to(url: &str) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay {
            url: format!("http://{}", listener.local_addr().unwrap()),
            open: Arc::default(),
        };
        let (open, server) = (
            relay.open.clone(),
            url.trim_start_matches("http://").trim_end_matches('/').to_owned(),
        );
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                open.lock().unwrap().push(client.try_clone().unwrap());
                pass(client.try_clone().unwrap(), server.try_clone().unwrap());
                pass(server, client);
            }
        });
        relay
    }

    /// Breaks all connections.
    pub(crate) fn break_all(&self) {
        for client in self.open.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both); // it may be closed already
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both); // it may be closed already
    });
}
