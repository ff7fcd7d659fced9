//! Sessions: opened, changed for another, left.

use std::sync::Arc;

use loopwright::{AgentHandle, EventStream, MessageId, ModelInfo, SessionInfo};
use tokio::sync::mpsc;

use super::News;
use crate::agent::{self, Allowed, Built, StartError};
use crate::args::{Options, Which};
use crate::sessions::place_of;
use crate::store::{Session, name_or_fresh};
use crate::tui::state::{Opened, Told};

/// Which session is to be opened.
pub(super) enum Target {
    /// That of the command line.
    First(Box<Which>),
    /// The one that is open, with other options.
    Same(Box<Options>),
    /// The one of this name.
    Named(String),
    /// A new one.
    New,
}

/// What there is of the outside: the session that is open, and all that is needed to open another.
pub(super) struct Host {
    news: mpsc::UnboundedSender<News>,
    /// The options of the command line.
    given: Options,
    /// Those of the session.
    options: Options,
    allowed: Allowed,
    open: Option<Open>,
    /// The session that is or was to be opened.
    session: Option<Session>,
    /// The command line's, if it could not be opened.
    first: Option<Box<Which>>,
}

struct Open {
    handle: AgentHandle,
    /// Ends when the session has let go of its memory.
    end: EventStream,
    /// Something was said in it, now or before.
    spoke: bool,
}

impl Host {
    pub(super) fn new(given: Options, news: mpsc::UnboundedSender<News>) -> Self {
        let allowed = Allowed::default();
        Host { news, options: given.clone(), given, allowed, open: None, session: None, first: None }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }
    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }
    pub(super) fn handle(&self) -> Option<AgentHandle> {
        self.open.as_ref().map(|open| open.handle.clone())
    }
    pub(super) fn news(&self) -> mpsc::UnboundedSender<News> {
        self.news.clone()
    }
    pub(super) fn allowed(&self) -> &Allowed {
        &self.allowed
    }
    pub(super) fn allow(&self, tool: &str) {
        self.allowed.add(tool);
    }
    pub(super) fn spoken(&mut self) {
        if let Some(open) = &mut self.open {
            open.spoke = true;
        }
    }
    pub(super) fn tell(&self, told: Told) {
        let _ = self.news.send(News::Told(told));
    }
    pub(super) fn tell_closed(&self) {
        self.tell(Told::NotOpened { why: "That needs a conversation.".into(), closed: true });
    }

    /// Opens a session in the place of the one that is open. Where it cannot be, that is told.
    pub(super) async fn open(&mut self, target: Target) {
        if let Err(StartError(why)) = self.try_open(target).await {
            self.tell(Told::NotOpened { why, closed: self.open.is_none() });
        }
    }

    async fn try_open(&mut self, target: Target) -> Result<(), StartError> {
        let mut same = false;
        let (session, options) = match target {
            Target::First(which) => {
                self.first = Some(which);
                self.first_session().await?
            }
            Target::Same(options) => match self.session.take() {
                Some(session) => {
                    same = self.open.is_some();
                    (session, *options)
                }
                None => {
                    self.given = *options;
                    self.first_session().await?
                }
            },
            Target::Named(name) => {
                let store = self.store()?;
                let info = store.session(&name).await.ok();
                let session = Session { store, name: name.into(), kept: true, info };
                // An old one goes on as it was started.
                let given = if session.info.is_some() { Options::default() } else { self.given.clone() };
                let (models, config) = (self.given.models.clone(), self.given.config.clone());
                let options = session.options(&Options { models, config, ..given })?;
                (session, options)
            }
            Target::New => {
                let (store, kept) = (self.store()?, self.session.as_ref().is_none_or(|session| session.kept));
                let name = name_or_fresh(None, &*store).await?.into();
                (Session { store, name, info: None, kept }, self.options.clone())
            }
        };
        let built = match agent::build(&options, &self.allowed).await {
            Ok(built) => built,
            Err(why) => {
                if same || self.session.is_none() {
                    self.session = Some(session);
                }
                return Err(why);
            }
        };
        self.release().await;
        let opened = start(&session, built, same).await;
        (self.session, self.options) = (Some(session), options);
        let (opened, handle, events) = opened?;
        let spoke = !opened.state.messages.is_empty();
        self.open = Some(Open { end: handle.subscribe(), handle, spoke });
        self.first = None;
        let _ = self.news.send(News::Opened(Box::new(opened), events));
        Ok(())
    }

    async fn first_session(&mut self) -> Result<(Session, Options), StartError> {
        let session = match &self.first {
            Some(which) => Session::choose(which).await?,
            None => return Err(StartError("There is no session to open.".into())),
        };
        let options = session.options(&self.given)?;
        Ok((session, options))
    }

    pub(super) fn store(&self) -> Result<Arc<dyn loopwright::MemoryStore>, StartError> {
        match (&self.session, &self.first) {
            (Some(session), _) => Ok(session.store.clone()),
            (None, Some(which)) => crate::store::open(&which.at),
            (None, None) => Err(StartError("There is no place where sessions are kept.".into())),
        }
    }

    /// A new session with this one's past up to a message.
    pub(super) async fn fork(&mut self, at: Option<MessageId>) {
        match self.try_fork(at).await {
            Ok(name) => self.open(Target::Named(name)).await,
            Err(StartError(why)) => self.tell(Told::NotOpened { why, closed: self.open.is_none() }),
        }
    }

    async fn try_fork(&self, at: Option<MessageId>) -> Result<String, StartError> {
        let Some(session) = &self.session else { return Err(StartError("No session is open.".into())) };
        let store = &session.store;
        let item = match at {
            None => None,
            Some(id) => Some(place_of(id, &store.read(&session.name, 0).await?).ok_or_else(|| {
                StartError(format!("There is no message {id} in this conversation: /fork offers those there are."))
            })?),
        };
        let name = name_or_fresh(None, &**store).await?;
        match store.fork(&session.name, item, &name).await? {
            0 => Err(StartError("No turn had ended there: there is no past to begin with.".into())),
            _ => Ok(name),
        }
    }

    /// Lets the session go. What nobody ever said anything in is not kept.
    async fn release(&mut self) {
        let Some(Open { handle, mut end, spoke }) = self.open.take() else { return };
        drop(handle);
        while end.next().await.is_some() {}
        if let Some(session) = self.session.as_ref().filter(|session| !spoke && session.kept && session.info.is_none())
        {
            let _ = session.store.delete(&session.name).await; // an empty one more does no harm
        }
    }

    /// Stops what goes on and lets the session go. Gives its name, if there is something to go on with.
    pub(super) async fn leave(&mut self) -> Option<Arc<str>> {
        let open = self.open.as_ref()?;
        let spoke = open.spoke;
        let handle = open.handle.clone();
        if handle.state().await.is_ok_and(|state| state.is_running) {
            let _ = handle.abort().await;
            handle.wait_for_idle().await;
        }
        drop(handle);
        self.release().await;
        let session = self.session.as_ref()?;
        (session.kept && (spoke || session.info.is_some())).then(|| session.name.clone())
    }
}

async fn start(session: &Session, built: Built, same: bool) -> Result<(Opened, AgentHandle, EventStream), StartError> {
    let info: Option<SessionInfo> = session.store.session(&session.name).await.ok();
    let (usage, cost) = info.map(|info| (info.usage, info.cost)).unwrap_or_default();
    let context = session.context(&built).await?;
    let model: ModelInfo = built.model.clone();
    let root = built.root.clone();
    let (handle, events) = built.agent.run(context).await?;
    let state = handle.state().await.map_err(|why| StartError(format!("The session could not be opened: {why}.")))?;
    Ok((Opened { state, model, kept: session.kept, root, usage, cost, same }, handle, events))
}
