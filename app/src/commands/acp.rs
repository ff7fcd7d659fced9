//! `loopwright acp`: the agent in an editor, over the Agent Client Protocol.
//!
//! This task reads the editor's lines and passes them on. Each session has a task of its own, and
//! one task writes to the editor, so no session waits for another.

mod ask;
mod client;
mod modes;
mod open;
mod session;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use loopwright_protocols::RpcError;
use loopwright_protocols::acp::{
    ClientMessage, ClientRequest, Surroundings, decode, notice, request_id,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::client::{Client, Line, connect};
use self::modes::Mode;
use self::open::{Opened, Opener, Target, not_found};
use self::session::{Command, EditorSession};
use crate::args::AcpArgs;
use crate::config::Config;
use crate::error::StartError;
use crate::slash::FrontEnd;

/// Time limit for the editor to read the last messages at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves an editor until it closes standard input, and returns the exit code.
pub(crate) async fn acp(args: AcpArgs, config: Arc<Config>) -> Result<u8, StartError> {
    let store = config.open_store(&args.store)?;
    let (client, mut lines, written) = connect()?;
    let opener = Opener { store, options: args.options, config, client: client.clone() };
    let mut editor = Editor {
        client,
        opener: Arc::new(opener),
        sessions: HashMap::new(),
        opening: JoinSet::new(),
        tasks: JoinSet::new(),
    };
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(Line::Message(line)) => editor.line(&line).await,
                Some(Line::TooLong(start)) => {
                    let why = RpcError::invalid_request("The line is too long: 64 MiB at most.");
                    editor.client.respond(&request_id(&start), Err(why)).await;
                }
                None => break,
            },
            Some(Ok((id, opened))) = editor.opening.join_next() => editor.opened(&id, opened).await,
            Some(_) = editor.tasks.join_next() => {}
        }
    }
    editor.sessions.clear(); // each session closes when nothing can be sent to it any longer
    editor.opening.shutdown().await;
    while editor.tasks.join_next().await.is_some() {}
    drop(editor);
    let _ = timeout(FLUSH_TIMEOUT, written).await; // an editor that reads nothing is gone
    Ok(0)
}

/// The open sessions of an editor.
struct Editor {
    client: Arc<Client>,
    opener: Arc<Opener>,
    sessions: HashMap<Arc<str>, OpenSession>,
    opening: JoinSet<(Value, Result<Opened, RpcError>)>,
    /// The tasks of sessions, and short-lived tasks.
    tasks: JoinSet<()>,
}

struct OpenSession {
    commands: mpsc::UnboundedSender<Command>,
    modes: Vec<Mode>,
}

impl Editor {
    async fn line(&mut self, line: &[u8]) {
        match decode(line) {
            Ok(ClientMessage::Request(id, request)) => {
                if let Some(result) = self.request(&id, request) {
                    self.client.respond(&id, result).await;
                }
            }
            Ok(ClientMessage::Cancel(session_id)) => {
                if let Some(open) = self.sessions.get(&session_id) {
                    let _ = open.commands.send(Command::Cancel); // unless it has ended
                }
            }
            Ok(ClientMessage::Response(id, result)) => self.client.resolve(&id, result),
            Ok(_) => {}
            Err((id, error)) => self.client.respond(&id, Err(error)).await,
        }
    }

    /// Handles a request. Returns `None` if it is answered later.
    fn request(&mut self, id: &Value, request: ClientRequest) -> Option<Result<Value, RpcError>> {
        match request {
            ClientRequest::Initialize { has_forms } => {
                self.client.set_forms(has_forms);
                return Some(Ok(self.initialized()));
            }
            ClientRequest::NewSession(given) => self.open(id, Target::New, given),
            ClientRequest::LoadSession(session, given) => {
                self.open(id, Target::Load(session), given);
            }
            ClientRequest::ResumeSession(session, given) => {
                self.open(id, Target::Resume(session), given);
            }
            ClientRequest::ListSessions { cwd, cursor } => {
                let (opener, id) = (self.opener.clone(), id.clone());
                self.tasks.spawn(async move {
                    let sessions = opener.list(cwd, cursor).await;
                    opener.client.respond(&id, sessions).await;
                });
            }
            ClientRequest::CloseSession(session_id) => {
                let Some(closed) = self.close(&session_id) else {
                    return Some(Err(not_found(&session_id)));
                };
                let (client, id) = (self.client.clone(), id.clone());
                self.tasks.spawn(async move {
                    let _ = closed.await; // an error means that it had already ended
                    client.respond(&id, Ok(json!({}))).await;
                });
            }
            ClientRequest::SetMode(session_id, mode_id) => {
                return Some(self.set_mode(&session_id, &mode_id));
            }
            ClientRequest::Prompt(session_id, message) => {
                let open = self.sessions.get(&session_id);
                let prompt = Command::Prompt(id.clone(), message);
                if open.is_none_or(|open| open.commands.send(prompt).is_err()) {
                    return Some(Err(not_found(&session_id)));
                }
            }
            _ => return Some(Err(RpcError::internal("The request is not supported."))),
        }
        None
    }

    fn initialized(&self) -> Value {
        let program = &self.opener.config.program;
        let version = program.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
        json!({
            "protocolVersion": 1,
            "agentInfo": { "name": program.names.app(), "version": version },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": { "list": {}, "resume": {}, "close": {} },
            },
            "authMethods": [],
        })
    }

    /// Opens a session in its own task. A session that is open is closed first.
    fn open(&mut self, id: &Value, target: Target, given: Surroundings) {
        let closed = match &target {
            Target::New => None,
            Target::Load(session) | Target::Resume(session) => self.close(session),
        };
        let (opener, id) = (self.opener.clone(), id.clone());
        self.opening.spawn(async move {
            if let Some(closed) = closed {
                let _ = closed.await; // an error means that it had already ended
            }
            (id, opener.open(target, given).await)
        });
    }

    async fn opened(&mut self, id: &Value, opened: Result<Opened, RpcError>) {
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => return self.client.respond(id, Err(why)).await,
        };
        let session = opened.session.name.clone();
        let (sender, commands) = mpsc::unbounded_channel();
        let modes = opened.modes.clone();
        let state = opened.mode.state(&modes);
        let commands_update = self.commands(&opened);
        let notices = opened.notices.clone();
        let program = self.opener.config.program.clone();
        let task = EditorSession::new(opened, self.client.clone(), program);
        self.sessions.insert(session.clone(), OpenSession { commands: sender, modes });
        let response = json!({ "sessionId": &session, "modes": state });
        self.client.respond(id, Ok(response)).await;
        self.client.update(&session, commands_update).await;
        for text in notices {
            self.client.update(&session, notice(&format!("{text}\n\n"))).await;
        }
        self.tasks.spawn(task.run(commands));
    }

    /// Returns the update that lists the commands of a session: the built-in ones, the agent's and
    /// the app's.
    fn commands(&self, opened: &Opened) -> Value {
        let has_plan = opened.built.commands.contains(&"/plan");
        let built_in = FrontEnd::Editor.commands();
        let built_in = built_in.filter(|command| command.name != "plan" || has_plan);
        let built_in = built_in.map(|command| (command.name, command.help, command.argument));
        let own = self.opener.config.program.slash_commands.iter();
        let own = own.map(|own| (&*own.name, &*own.help, "[TEXT]"));
        let commands = built_in.chain(own).map(|(name, description, hint)| {
            let input = (!hint.is_empty()).then(|| json!({ "hint": hint }));
            json!({ "name": name, "description": description, "input": input })
        });
        let commands: Vec<Value> = commands.collect();
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })
    }

    fn close(&mut self, session: &str) -> Option<oneshot::Receiver<()>> {
        let open = self.sessions.remove(session)?;
        let (sender, closed) = oneshot::channel();
        let _ = open.commands.send(Command::Close(sender)); // unless it has ended
        Some(closed)
    }

    fn set_mode(&self, session: &str, id: &str) -> Result<Value, RpcError> {
        let open = self.sessions.get(session).ok_or_else(|| not_found(session))?;
        let mode = Mode::of(id, &open.modes).ok_or_else(|| {
            RpcError::invalid_params(format!("/params/modeId: there is no mode `{id}`"))
        })?;
        let sent = open.commands.send(Command::SetMode(mode));
        sent.map(|()| json!({})).map_err(|_| not_found(session))
    }
}
