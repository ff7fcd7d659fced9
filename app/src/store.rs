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
        let text = print::sentence(&error.to_string());
        let first = text.chars().next().into_iter().flat_map(char::to_uppercase);
        StartError(first.chain(text.chars().skip(1)).collect())
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
        let store = if which.no_session { Arc::new(InMemoryStore::new()) } else { open(&which.at)? };
        let info = match which.session.as_deref() {
            Some(name) => find(&*store, name).await?,
            None if which.latest => match store.sessions().await?.into_iter().next() {
                None => return Err(StartError("There is no session to go on with: leave --continue out.".into())),
                latest => latest,
            },
            None => None,
        };
        let name = match &info {
            Some(info) => info.id.clone(),
            None => name_or_fresh(which.session.as_deref(), &*store).await?.into(),
        };
        Ok(Session { store, name, info, kept: !which.no_session })
    }

    /// One that is there.
    pub(crate) fn known(store: Arc<dyn MemoryStore>, info: SessionInfo) -> Self {
        Session { store, name: info.id.clone(), info: Some(info), kept: true }
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

/// What is known of a session, if it is there.
async fn find(store: &dyn MemoryStore, name: &str) -> Result<Option<SessionInfo>, StartError> {
    match store.session(name).await {
        Ok(info) => Ok(Some(info)),
        Err(MemoryError::NoSession(_)) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// What is known of a session that must be there.
pub(crate) async fn known(store: &dyn MemoryStore, name: &str) -> Result<SessionInfo, StartError> {
    let none = || StartError(format!("There is no session `{name}`; `loopwright sessions list` lists them."));
    find(store, name).await?.ok_or_else(none)
}

/// The name that was given, else one that no session has.
pub(crate) async fn name_or_fresh(given: Option<&str>, store: &dyn MemoryStore) -> Result<String, StartError> {
    if let Some(name) = given {
        return Ok(name.to_owned());
    }
    loop {
        let name = format!("s{:08x}", SystemAmbient.random() as u32);
        if find(store, &name).await?.is_none() {
            return Ok(name);
        }
    }
}
