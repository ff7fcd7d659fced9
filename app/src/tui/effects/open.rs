//! Sessions: opened, changed for another, left.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::agent::AgentState;
use loopwright_core::message::MessageId;
use loopwright_core::model::ModelInfo;
use loopwright_core::{AgentHandle, EventStream};
use tokio::sync::mpsc;

use super::News;
use crate::agent::{self, Allowed, Built, StartError};
use crate::args::{Options, Which};
use crate::print;
use crate::sessions::place_of;
use crate::store::{Session, find, name_or_fresh};
use crate::tui::state::{Opened, Told, Tone};

/// Which session is to be opened.
pub(super) enum Target {
    /// That of the command line.
    First(Box<Which>),
    /// The one that is open, with other options.
    Same(Box<Options>),
    /// The one of this name.
    Named(String),
    /// The one of this name, which was made of the one that is open.
    Fork(String),
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
    /// What the user has allowed in this session.
    allowed: Allowed,
    open: Option<Open>,
    /// The session that is or was to be opened.
    session: Option<Session>,
    /// The command line's, if it could not be opened.
    first: Option<Box<Which>>,
}

struct Open {
    handle: AgentHandle,
    model: ModelInfo,
    root: PathBuf,
    /// Something was said in it, now or before.
    spoke: bool,
}

impl Host {
    pub(super) fn new(given: Options, news: mpsc::UnboundedSender<News>) -> Self {
        let allowed = Allowed::default();
        Host {
            news,
            options: given.clone(),
            given,
            allowed,
            open: None,
            session: None,
            first: None,
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// The options, changed, and so in what the session keeps of them.
    pub(super) fn with(&self, change: impl Fn(&mut Options)) -> Box<Options> {
        let mut options = Box::new(self.options.clone());
        change(&mut options);
        options.given.as_deref_mut().into_iter().for_each(change);
        options
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
        let same = matches!(target, Target::Same(_)) && self.session.is_some();
        let (session, options) = self.choose(target).await?;
        let allowed = if same { self.allowed.clone() } else { Allowed::default() };
        let built = match agent::build(&options, &allowed).await {
            Ok(built) => built,
            Err(why) => {
                let why = with_address(why, &session, &options);
                if self.session.is_none() {
                    (self.session, self.options) = (Some(session), options);
                }
                return Err(why);
            }
        };
        let goes_on = same && self.open.is_some();
        if same {
            self.release().await; // it cannot be open twice
        }
        let started = start(&session, built, goes_on).await;
        if self.open.is_some() && started.is_err() {
            return started.map(drop); // the one that is open stays
        }
        self.release().await;
        let name = session.name.clone();
        (self.session, self.options, self.allowed) = (Some(session), options, allowed);
        let (opened, handle, events) = started.map_err(|why| again(&why, &name))?;
        let (model, root) = (opened.model.clone(), opened.root.clone());
        self.open = Some(Open { handle, model, root, spoke: !opened.state.messages.is_empty() });
        self.first = None;
        let _ = self.news.send(News::Opened(Box::new(opened), events));
        Ok(())
    }

    /// The session, and with what it is to be opened.
    async fn choose(&mut self, target: Target) -> Result<(Session, Options), StartError> {
        match target {
            Target::First(which) => {
                let name = which.session.clone();
                self.first = Some(which);
                let chosen = self.first_session().await;
                match (chosen, name) {
                    (Err(why), Some(name)) => Err(again(&why, &name)),
                    (chosen, _) => chosen,
                }
            }
            Target::Same(options) => match &self.session {
                Some(session) => Ok((session.clone(), *options)),
                None => {
                    self.given = *options;
                    self.first_session().await
                }
            },
            Target::Named(name) => {
                match self.session.as_ref().filter(|session| *session.name == *name) {
                    Some(_) if self.open.is_some() => {
                        Err(StartError(format!("Session `{name}` is the one that is open.")))
                    }
                    Some(session) => Ok((session.clone(), self.options.clone())),
                    None if self.is_first(&name) => self.first_session().await,
                    None => {
                        let session = self.named(&name).await?;
                        // It goes on as it was started.
                        let (models, config) =
                            (self.given.models.clone(), self.given.config.clone());
                        let options = self
                            .settle(&session, &Options { models, config, ..Options::default() })?;
                        Ok((session, options))
                    }
                }
            }
            // What the open one was allowed when it was started is its own.
            Target::Fork(name) => {
                let session = self.named(&name).await?;
                let bare = Session { info: None, ..session.clone() };
                Ok((session, self.settle(&bare, &self.given_now())?))
            }
            Target::New => {
                let store = self.store()?;
                let name = name_or_fresh(None, &*store).await?.into();
                let session = Session { store, name, info: None, kept: self.keeps() };
                let options = self.settle(&session, &self.given_now())?;
                Ok((session, options))
            }
        }
    }

    /// One that is there.
    async fn named(&self, name: &str) -> Result<Session, StartError> {
        let store = self.store()?;
        let none = || {
            StartError(format!(
                "There is no session `{name}`: /sessions offers those there are, /new begins one."
            ))
        };
        let info = find(&*store, name).await?.ok_or_else(none)?;
        Ok(Session { kept: self.keeps(), ..Session::known(store, info) })
    }

    /// Whether it is the command line's, which could not be opened.
    fn is_first(&self, name: &str) -> bool {
        let first = self.first.as_ref().and_then(|which| which.session.as_deref());
        self.session.is_none() && first == Some(name)
    }

    fn keeps(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.kept)
    }

    /// What was given on the command line, with the model and the thinking of the session that is
    /// open.
    fn given_now(&self) -> Options {
        let used = self.options.given.as_deref().unwrap_or(&self.options);
        let (model, base_url, thinking) =
            (used.model.clone(), used.base_url.clone(), used.thinking);
        Options { model, base_url, thinking, models: used.models.clone(), ..self.given.clone() }
    }

    /// The options for a session. What it may do because it was started so is told.
    fn settle(&self, session: &Session, given: &Options) -> Result<Options, StartError> {
        let (options, freedoms) = session.options_and_freedoms(given)?;
        if let Some(freedoms) = freedoms {
            self.tell(Told::Notice(Tone::Loud, freedoms));
        }
        Ok(options)
    }

    async fn first_session(&mut self) -> Result<(Session, Options), StartError> {
        let session = match &self.first {
            Some(which) => Session::choose(which).await?,
            None => return Err(StartError("There is no session to open.".into())),
        };
        let options = self.settle(&session, &self.given)?;
        Ok((session, options))
    }

    /// Reads the events of the session from here on: what was not read is in what the session is
    /// now.
    pub(super) async fn join(&mut self) {
        if let Err(StartError(why)) = self.try_join().await {
            self.open = None;
            self.tell(Told::NotOpened { why, closed: true });
        }
    }

    async fn try_join(&self) -> Result<(), StartError> {
        let ended = |_| StartError("The session has ended: /sessions opens it again.".into());
        let (Some(open), Some(session)) = (&self.open, &self.session) else {
            return Ok(());
        };
        let (_, events) = open.handle.join().await.map_err(ended)?;
        let mut state = open.handle.state().await.map_err(ended)?;
        (state.repaired, state.interrupted_run) = (None, None); // that was told
        let (model, root) = (open.model.clone(), open.root.clone());
        let opened = opened(session, state, model, root, true).await?;
        let _ = self.news.send(News::Opened(Box::new(opened), events));
        Ok(())
    }

    pub(super) fn store(&self) -> Result<Arc<dyn loopwright_core::SessionStore>, StartError> {
        match (&self.session, &self.first) {
            (Some(session), _) => Ok(session.store.clone()),
            (None, Some(which)) => crate::store::open(&which.at),
            (None, None) => Err(StartError("There is no place where sessions are kept.".into())),
        }
    }

    /// A new session with this one's past up to a message.
    pub(super) async fn fork(&mut self, at: Option<MessageId>) {
        match self.try_fork(at).await {
            Ok(name) => self.open(Target::Fork(name)).await,
            Err(StartError(why)) => self.tell(Told::NotOpened { why, closed: self.open.is_none() }),
        }
    }

    async fn try_fork(&self, at: Option<MessageId>) -> Result<String, StartError> {
        let Some(session) = &self.session else {
            return Err(StartError("No session is open.".into()));
        };
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
        let Some(Open { handle, spoke, .. }) = self.open.take() else {
            return;
        };
        let mut end = handle.subscribe(); // ends when the session has let go of its memory
        drop(handle);
        while end.next().await.is_some() {}
        if let Some(session) =
            self.session.as_ref().filter(|session| !spoke && session.kept && session.info.is_none())
        {
            let _ = session.store.delete(&session.name).await; // an empty one more does no harm
        }
    }

    /// Stops what goes on and lets the session go. Gives its name, if there is something to go on
    /// with.
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

async fn start(
    session: &Session,
    built: Built,
    same: bool,
) -> Result<(Opened, AgentHandle, EventStream), StartError> {
    let (context, _) = session.context_and_mended(&built).await?; // the session's state tells it
    let (handle, events) = built.agent.run(context).await?;
    let state = handle
        .state()
        .await
        .map_err(|why| StartError(format!("The session could not be opened: {why}.")))?;
    let opened = opened(session, state, built.model, built.root, same).await?;
    Ok((opened, handle, events))
}

async fn opened(
    session: &Session,
    state: AgentState,
    model: ModelInfo,
    root: PathBuf,
    same: bool,
) -> Result<Opened, StartError> {
    let known = find(&*session.store, &session.name).await?;
    let (usage, cost) = known.map(|info| (info.usage, info.cost)).unwrap_or_default();
    Ok(Opened { state, model, kept: session.kept, root, usage, cost, same })
}

fn again(StartError(why): &StartError, name: &str) -> StartError {
    StartError(format!("{why} `/sessions {name}` tries again."))
}

/// An address is nothing that can be typed here.
fn with_address(StartError(why): StartError, session: &Session, options: &Options) -> StartError {
    if !why.contains("--base-url") {
        return StartError(why);
    }
    let (name, model) =
        (print::quoted(&session.name), options.model.as_deref().unwrap_or("PROVIDER/NAME"));
    let which = if session.kept { format!("--session {name} ") } else { String::new() };
    let command = format!("loopwright {which}--model {} --base-url URL", print::quoted(model));
    StartError(format!("{why} To give one, leave with /quit and start `{command}`."))
}
