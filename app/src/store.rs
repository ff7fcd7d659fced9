//! Where sessions are kept, and how one is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright::{Ambient, InMemoryStore, MemoryError, MemoryStore, RunContext, SessionInfo, SystemAmbient};
use loopwright_memory::{Jsonl, Sqlite};

use crate::agent::{Built, StartError};
use crate::args::{Options, StoreAt, Which};
use crate::print;

/// The environment variable with the place.
const VARIABLE: &str = "LOOPWRIGHT_STORE";

impl From<MemoryError> for StartError {
    fn from(error: MemoryError) -> Self {
        let text = error.to_string();
        let (first, end) = (text.chars().next(), if text.ends_with('.') { "" } else { "." });
        StartError(
            first.into_iter().flat_map(char::to_uppercase).chain(text.chars().skip(1)).chain(end.chars()).collect(),
        )
    }
}

/// The store at the place that was asked for, else that of the environment, else the usual one.
pub(crate) fn open(at: &StoreAt) -> Result<Arc<dyn MemoryStore>, StartError> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let usual = || {
        let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local").join("share")))?;
        Some(data.join("loopwright").join("sessions.db"))
    };
    let Some(path) = at.store.clone().or_else(|| set(VARIABLE)).or_else(usual) else {
        let why = format!(
            "There is no place to keep sessions in, since HOME is not set: give one with --store PATH or {VARIABLE}, or keep \
             nothing with --no-session."
        );
        return Err(StartError(why));
    };
    Ok(if is_directory(&path) { Arc::new(Jsonl::open(&path)?) } else { Arc::new(Sqlite::open(&path)?) })
}

fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator)
}

/// A session that is about to be opened.
pub(crate) struct Session {
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) name: Arc<str>,
    /// What is known of it, if it is there.
    pub(crate) info: Option<SessionInfo>,
    /// It is kept when the process ends.
    pub(crate) kept: bool,
}

impl Session {
    /// The one that the command line means.
    pub(crate) async fn choose(which: &Which) -> Result<Self, StartError> {
        if which.no_session {
            return Self::new(Arc::new(InMemoryStore::new()), false).await;
        }
        let store = open(&which.at)?;
        if which.latest {
            let latest = store.sessions().await?.into_iter().next();
            let info =
                latest.ok_or_else(|| StartError("There is no session to go on with: leave --continue out.".into()))?;
            return Ok(Session { store, name: info.id.clone(), info: Some(info), kept: true });
        }
        match which.session.as_deref() {
            Some(name) => match store.session(name).await {
                Ok(info) => Ok(Session { store, name: name.into(), info: Some(info), kept: true }),
                Err(MemoryError::NoSession(_)) => Ok(Session { store, name: name.into(), info: None, kept: true }),
                Err(why) => Err(why.into()),
            },
            None => Self::new(store, true).await,
        }
    }

    /// One that must be there.
    pub(crate) async fn there(store: Arc<dyn MemoryStore>, name: &str) -> Result<Self, StartError> {
        let info = store.session(name).await.map_err(|why| match why {
            MemoryError::NoSession(_) => {
                StartError(format!("There is no session `{name}`; `loopwright sessions list` lists them."))
            }
            why => why.into(),
        })?;
        Ok(Session { store, name: name.into(), info: Some(info), kept: true })
    }

    async fn new(store: Arc<dyn MemoryStore>, kept: bool) -> Result<Self, StartError> {
        let name = fresh_name(&*store).await?.into();
        Ok(Session { store, name, info: None, kept })
    }

    /// The options, with those that the session was started with where they say nothing.
    pub(crate) fn options(&self, given: &Options) -> Result<Options, StartError> {
        let Some(kept) = self.info.as_ref().and_then(|info| info.settings.as_deref()) else { return Ok(given.clone()) };
        let kept: Options = serde::Deserialize::deserialize(kept).map_err(|why| {
            StartError(format!("The options that session `{}` was started with cannot be read: {why}.", self.name))
        })?;
        if let Some(freedoms) = given.kept_freedoms(&kept) {
            print::show(&freedoms);
        }
        Ok(given.clone().over(kept))
    }

    /// Opens it for this agent. What had to be mended is told.
    pub(crate) async fn context(&self, built: &Built) -> Result<RunContext, StartError> {
        let memory = self.store.open(&self.name).await?;
        if let Some(what) = memory.repaired() {
            print::complain(&what);
        }
        Ok(RunContext::new().session(self.name.clone()).shared_memory(memory).settings(built.settings.clone()))
    }
}

/// A name that no session has.
pub(crate) async fn fresh_name(store: &dyn MemoryStore) -> Result<String, StartError> {
    loop {
        let name = format!("s{:08x}", SystemAmbient.random() as u32);
        match store.session(&name).await {
            Err(MemoryError::NoSession(_)) => return Ok(name),
            Err(why) => return Err(why.into()),
            Ok(_) => {}
        }
    }
}
