//! [`Conversation`]: the session of a client's conversation. Protocols call it a thread, a chat or
//! a context.
//!
//! The client chooses the key of a conversation. The session's id is derived from the key, the
//! agent and the caller. It is thus the same in each process and after a restart, and no caller
//! reaches another caller's session. A key can also be the id of a session that the caller may
//! read.

use std::sync::Arc;

use loopwright_core::Principal;
use loopwright_core::event::{Envelope, ExternalAction, Input, InputEvent};
use loopwright_core::hex;
use loopwright_core::log::{MemoryError, SessionInfo, SessionLog};
use loopwright_core::message::{InputId, RunId};
use loopwright_host::SessionSettings;
use sha2::{Digest, Sha256};

use super::backlog::Start;
use super::feed::Feed;
use crate::access::path::SessionId;
use crate::access::{Caller, Change, Read, check_create, check_session};
use crate::error::{ApiError, ErrorKind};
use crate::inputs::{check_budget, check_content, resolve_action};
use crate::limits::quota::Client;
use crate::server::Server;

/// The number of bytes of a conversation's digest that its session id uses.
const ID_BYTES: usize = 16;

/// The caller of a protocol, and the agent it uses.
pub(crate) struct Participant {
    pub(crate) server: Server,
    pub(crate) agent: String,
    pub(crate) caller: Caller,
    pub(crate) client: Client,
}

/// The session of a conversation, for one caller.
pub(crate) struct Conversation {
    participant: Participant,
    session: Arc<str>,
    owner: Option<Principal>,
}

impl Participant {
    /// Finds the session of a conversation, or creates it with these settings.
    ///
    /// # Errors
    /// Fails if the agent does not exist, if the key is the id of another agent's session, and if
    /// the caller may not create the session.
    pub(crate) async fn open(
        self,
        key: &str,
        mut settings: SessionSettings,
    ) -> Result<Conversation, ApiError> {
        self.server.shared().drain.check()?;
        let session = match self.session_of(key).await? {
            Some(session) => session,
            None => {
                settings.agent = Some(self.agent.clone());
                check_create(&self.server, &self.caller, &settings).await?;
                let session = self.derived_id(key);
                let live = &self.server.shared().live;
                live.create_once(session.clone(), settings, self.caller.named()).await?;
                session
            }
        };
        self.conversation(session).await
    }

    /// Finds the session of a conversation. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the agent does not exist, or if the key is the id of another agent's session.
    pub(crate) async fn find(self, key: &str) -> Result<Option<Conversation>, ApiError> {
        match self.session_of(key).await? {
            Some(session) => self.conversation(session).await.map(Some),
            None => Ok(None),
        }
    }

    async fn conversation(self, session: Arc<str>) -> Result<Conversation, ApiError> {
        let owner = check_session::<Read>(&self.server, &self.caller, &session).await?;
        Ok(Conversation { participant: self, session, owner })
    }

    async fn session_of(&self, key: &str) -> Result<Option<Arc<str>>, ApiError> {
        let shared = self.server.shared();
        let mut settings = SessionSettings::new();
        settings.agent = Some(self.agent.clone());
        if !shared.agents.has(&settings) {
            let names: Vec<String> =
                shared.agents.names().map(|name| format!("`{name}`")).collect();
            let why = format!("There is no such agent here, but {}.", names.join(", "));
            return Err(ApiError::new(ErrorKind::NotFound, why));
        }
        let derived = self.derived_id(key);
        match shared.store.session(&derived).await {
            Ok(_) => return Ok(Some(derived)),
            Err(MemoryError::NoSession(_)) if SessionId::is_legal(key) => {}
            Err(MemoryError::NoSession(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let info = match shared.store.session(key).await {
            Ok(info) => info,
            Err(MemoryError::NoSession(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match check_session::<Read>(&self.server, &self.caller, key).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            checked => checked?,
        };
        let settings = shared.agents.stored_settings(info.settings.as_deref());
        let agent = shared.agents.name_of(&settings);
        if *agent != *self.agent {
            let why = format!("The session `{key}` belongs to the agent `{agent}`: use it there.");
            return Err(ApiError::new(ErrorKind::Conflict, why));
        }
        Ok(Some(info.id))
    }

    /// Returns the id of this key's session, for a key that is not itself the id of a session.
    fn derived_id(&self, key: &str) -> Arc<str> {
        let owner = self.caller.named().map(Principal::as_str);
        let mut digest = Sha256::new();
        // Lengths are hashed too, so that no two conversations have the same input.
        for part in [owner.map_or("", |_| "owner"), owner.unwrap_or(""), &self.agent, key] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        format!("c{}", hex::encode(&digest.finalize()[..ID_BYTES])).into()
    }
}

impl Conversation {
    /// Returns the id of the session.
    pub(crate) fn session(&self) -> &Arc<str> {
        &self.session
    }

    /// Returns the server.
    pub(crate) fn server(&self) -> &Server {
        &self.participant.server
    }

    /// Returns the session's info: its owner, run, usage and pending actions.
    pub(crate) async fn info(&self) -> Result<SessionInfo, ApiError> {
        Ok(self.server().shared().store.session(&self.session).await?)
    }

    /// Returns the run in progress, in this process or another one.
    pub(crate) async fn run_in_progress(&self) -> Result<Option<RunId>, ApiError> {
        let run = self.info().await?.run;
        let is_running = self.server().shared().live.is_running(&self.session).await?;
        Ok(run.filter(|_| is_running))
    }

    /// Returns the pending actions of the session.
    pub(crate) async fn pending(&self) -> Result<Vec<ExternalAction>, ApiError> {
        let pending = self.info().await?.pending.into_iter();
        Ok(pending.map(|pending| Arc::unwrap_or_clone(pending.action)).collect())
    }

    /// Reads the log and returns the session's numbered events so far.
    pub(crate) async fn history(&self) -> Result<Vec<Envelope>, ApiError> {
        let entries = self.server().shared().store.read(&self.session, 0).await?;
        Ok(SessionLog::events(self.session.clone(), &entries))
    }

    /// Sends an input to the session, wherever it is open, and returns the input's id. On return,
    /// the input is in the session's log.
    ///
    /// # Errors
    /// Fails if the caller may not send it, if a budget or quota is used up, if the server is
    /// shutting down, or if the session refuses the input.
    pub(crate) async fn send(&self, input: Input) -> Result<InputId, ApiError> {
        let Conversation { participant, session, owner } = self;
        let Participant { server, caller, client, .. } = participant;
        let Input { id, event } = input;
        let event = match event {
            InputEvent::ExternalActionResult(result) => {
                // An action may need the approval of several callers.
                let id = id.map(|id| match caller.named() {
                    Some(principal) => format!("{id} of {principal}").into(),
                    None => id,
                });
                return resolve_action(server, caller, *client, session, result, id).await;
            }
            event => event,
        };
        check_session::<Change>(server, caller, session).await?;
        let shared = server.shared();
        let client = match event {
            InputEvent::Abort(_) => None,
            _ => {
                check_budget(server, owner.as_ref()).await?;
                shared.drain.check()?;
                Some(*client)
            }
        };
        let event = match event {
            InputEvent::UserRequest(prompt) => {
                let prompt = check_content(server, session, prompt).await?;
                InputEvent::UserRequest(caller.sends(prompt))
            }
            InputEvent::Steer(prompt) => {
                InputEvent::Steer(check_content(server, session, prompt).await?)
            }
            InputEvent::FollowUp(prompt) => {
                InputEvent::FollowUp(check_content(server, session, prompt).await?)
            }
            event => event,
        };
        Ok(shared.live.send(session, client, Input { id, event }).await??)
    }

    /// Returns the events of the session from `start` on. With `tree`, new events of sub-agents
    /// follow too.
    pub(crate) async fn events(&self, start: Start, tree: bool) -> Result<Feed, ApiError> {
        Feed::open(self.server(), &self.session, start, tree).await
    }
}

/// Returns the error for a conversation without a session.
pub(crate) fn no_conversation() -> ApiError {
    ApiError::new(ErrorKind::NotFound, "There is no such conversation with this agent.")
}
