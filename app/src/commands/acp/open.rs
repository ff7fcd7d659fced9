//! Opening and listing the sessions of an editor.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::log::{SessionInfo, SessionLog, SessionQuery};
use loopwright_core::session::EventReader;
use loopwright_core::{AgentHandle, SessionStore};
use loopwright_protocols::RpcError;
use loopwright_protocols::acp::{SessionUpdates, Surroundings};
use serde_json::{Value, json};

use super::client::Client;
use super::modes::{ACCEPT_ALL, ASK, Mode, modes};
use crate::config::Config;
use crate::error::StartError;
use crate::mcp::editor_servers;
use crate::options::{McpArg, Options};
use crate::output::Verbosity;
use crate::session::{Allowed, Built, Prefer, Session, SessionSetup, build, find, name_or_random};
use crate::wording::waiting;

/// Maximum number of sessions in a page of `session/list`.
const PAGE_SESSIONS: usize = 100;

/// The opener of an editor's sessions.
pub(super) struct Opener {
    pub(super) store: Arc<dyn SessionStore>,
    /// The options of the command line.
    pub(super) options: Options,
    pub(super) config: Arc<Config>,
    pub(super) client: Arc<Client>,
}

/// The session to open.
pub(super) enum Target {
    New,
    /// The session with this id; its history is sent.
    Load(Arc<str>),
    /// The session with this id; the editor has its history.
    Resume(Arc<str>),
}

/// An open session.
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) built: Built,
    pub(super) allowed: Allowed,
    pub(super) modes: Vec<Mode>,
    pub(super) mode: Mode,
    pub(super) handle: AgentHandle,
    pub(super) events: EventReader,
    pub(super) updates: SessionUpdates,
    /// Notices for the user, to be sent once the editor knows the session.
    pub(super) notices: Vec<String>,
}

impl From<StartError> for RpcError {
    fn from(StartError(why): StartError) -> Self {
        RpcError::internal(why)
    }
}

impl Opener {
    /// Opens a session and sends its history if the editor loads it.
    pub(super) async fn open(
        &self,
        target: Target,
        surroundings: Surroundings,
    ) -> Result<Opened, RpcError> {
        let Surroundings { cwd, mcp_servers, .. } = surroundings;
        let loads = matches!(target, Target::Load(_));
        let session = self.session(target).await?;
        let mut given = self.options.clone();
        given.settings.work_dir.get_or_insert_with(|| cwd.display().to_string());
        let (servers, left_out) = editor_servers(&mcp_servers);
        given.mcp.extend(servers.into_iter().map(McpArg::Editor));
        let (mut settings, permissions) = session.settings_and_permissions(&given, &self.config)?;
        let approves_all = settings.active.approve.iter().flatten().any(|name| name == "all");
        // The session's mode approves all calls instead, since the editor shows it.
        settings.change(|settings| {
            let mut approved = settings.approve.take().unwrap_or_default();
            approved.retain(|name| name != "all");
            settings.approve = (!approved.is_empty()).then_some(approved);
        });
        let allowed = Allowed::default();
        let built = build(&settings, &allowed, &self.config, Verbosity::Quiet).await?;
        let mode = if approves_all { ACCEPT_ALL } else { ASK };
        allowed.set_scope(mode.scope);
        let (handle, _) = session.start(&built, Prefer::Opening).await?;
        let failed = |why: &dyn std::fmt::Display| RpcError::internal(format!("{why}."));
        let (entries, events) = handle.join().await.map_err(|why| failed(&why))?;
        let mut updates = SessionUpdates::new(&built.root);
        if session.info.is_some() {
            let mut log = self.store.read(&session.name, 0).await.map_err(|why| failed(&why))?;
            log.truncate(usize::try_from(entries).unwrap_or(usize::MAX));
            for event in SessionLog::events(session.name.clone(), &log) {
                for update in updates.replay(&event.event) {
                    if loads {
                        self.client.update(&session.name, update).await;
                    }
                }
            }
        }
        let modes = modes(&built.commands);
        let events = EventReader::new(handle.clone(), events, self.store.clone());
        let first = permissions.into_iter().chain(left_out).chain(built.left_out.clone());
        let mut notices: Vec<String> = first.collect();
        notices.extend(unfinished(&handle).await?);
        Ok(Opened { session, built, allowed, modes, mode, handle, events, updates, notices })
    }

    async fn session(&self, target: Target) -> Result<Session, RpcError> {
        let (Target::Load(name) | Target::Resume(name)) = target else {
            let name = name_or_random(None, &*self.store).await?.into();
            return Ok(Session { store: self.store.clone(), name, info: None, is_stored: true });
        };
        let info = find(&*self.store, &name).await?.ok_or_else(|| not_found(&name))?;
        info.require_root().map_err(StartError::from)?;
        Ok(Session::existing(self.store.clone(), info))
    }

    /// Returns a page of the sessions that work in this directory, or in any.
    pub(super) async fn list(
        &self,
        cwd: Option<PathBuf>,
        cursor: Option<String>,
    ) -> Result<Value, RpcError> {
        let mut query = SessionQuery::new(PAGE_SESSIONS);
        query.brief = true;
        if let Some(cursor) = cursor {
            let cursor = cursor
                .parse()
                .map_err(|why| RpcError::invalid_params(format!("/params/cursor: {why}")))?;
            query = query.after(cursor);
        }
        let page = self.store.sessions_page(&query).await;
        let page = page.map_err(|why| RpcError::internal(format!("{why}.")))?;
        let sessions = page.sessions.iter().filter_map(|info| listed(info, cwd.as_ref()));
        let sessions: Vec<Value> = sessions.collect();
        Ok(json!({ "sessions": sessions, "nextCursor": page.next.map(|next| next.to_string()) }))
    }
}

/// The protocol's code for a session that does not exist.
const NOT_FOUND: i32 = -32002;

/// Returns the error for a session that does not exist or is not open.
pub(super) fn not_found(session: &str) -> RpcError {
    RpcError::new(
        NOT_FOUND,
        format!("There is no session `{session}`, or it is not open: load it."),
    )
}

/// Returns the list entry of a session, or `None` if it works in another directory.
fn listed(info: &SessionInfo, cwd: Option<&PathBuf>) -> Option<Value> {
    let directory = SessionSetup::of(info).directory?;
    if cwd.is_some_and(|cwd| *cwd != directory) {
        return None;
    }
    let changed = i64::try_from(info.changed).ok()?;
    let changed = jiff::Timestamp::from_millisecond(changed).ok()?;
    Some(json!({
        "sessionId": info.id,
        "cwd": directory,
        "title": info.title,
        "updatedAt": changed.to_string(),
    }))
}

/// Returns what the user is told about repairs and unfinished work of a session.
async fn unfinished(handle: &AgentHandle) -> Result<Vec<String>, RpcError> {
    let state = handle.state().await.map_err(|why| RpcError::internal(format!("{why}.")))?;
    let interrupted = state.interrupted_run.map(|run| {
        format!("Run {run} was interrupted: `/continue` continues it, another prompt ends it.")
    });
    let pending = waiting(&state.pending_actions)
        .map(|what| format!("{what} for you: `/continue` asks you, another prompt declines."));
    let repaired = state.repaired.map(|repaired| repaired.to_string());
    Ok([repaired, interrupted, pending].into_iter().flatten().collect())
}
