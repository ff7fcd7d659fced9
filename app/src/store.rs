//! Where sessions are kept, and how one is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::log::{InMemoryStore, MemoryError, SessionInfo};
use loopwright_core::{RunContext, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use serde::Deserialize;

use crate::agent::{Built, StartError};
use crate::args::{Options, StoreAt, Which};
use crate::config::named_in_environment;
use crate::print;
use crate::telling::sentence;

impl From<MemoryError> for StartError {
    fn from(error: MemoryError) -> Self {
        StartError(sentence(&error.to_string()))
    }
}

/// The store at the place that was asked for, else the usual one.
pub(crate) fn open(at: &StoreAt) -> Result<Arc<dyn SessionStore>, StartError> {
    let Some(path) = at.store.clone().or_else(usual_place) else {
        let why = "There is no place to keep sessions in, since HOME is not set: give one with --store PATH or \
                   LOOPWRIGHT_STORE, or keep nothing with --no-session.";
        return Err(StartError(why.into()));
    };
    Ok(if is_directory(&path) {
        Arc::new(Jsonl::open(&path)?)
    } else {
        Arc::new(Sqlite::open(&path)?)
    })
}

/// Where sessions are kept if nobody says otherwise.
pub(crate) fn usual_place() -> Option<PathBuf> {
    let data = named_in_environment("XDG_DATA_HOME");
    let data = data.or_else(|| Some(named_in_environment("HOME")?.join(".local").join("share")))?;
    Some(data.join("loopwright").join("sessions.db"))
}

fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator)
}

/// A session that is about to be opened.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) name: Arc<str>,
    /// What is known of it, if it is there.
    pub(crate) info: Option<SessionInfo>,
    /// It is kept when the process ends.
    pub(crate) kept: bool,
}

impl Session {
    /// The one that the command line means.
    pub(crate) async fn choose(which: &Which) -> Result<Self, StartError> {
        let store =
            if which.no_session { Arc::new(InMemoryStore::new()) } else { open(&which.at)? };
        let info = match which.session.as_deref() {
            Some(name) => find(&*store, name).await?,
            None if which.latest => match store.sessions().await?.into_iter().next() {
                None => {
                    return Err(StartError(
                        "There is no session to go on with: leave --continue out.".into(),
                    ));
                }
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
    pub(crate) fn known(store: Arc<dyn SessionStore>, info: SessionInfo) -> Self {
        Session { store, name: info.id.clone(), info: Some(info), kept: true }
    }

    /// The options, with those that the session was started with where they say nothing, and with
    /// what is configured where neither does.
    pub(crate) fn options(&self, given: &Options) -> Result<Options, StartError> {
        let (options, freedoms) = self.options_and_freedoms(given)?;
        if let (Some(freedoms), false) = (freedoms, given.quiet) {
            print::show(&freedoms);
        }
        Ok(options)
    }

    /// The same, with what is to be said of freedoms that the session was started with.
    pub(crate) fn options_and_freedoms(
        &self,
        given: &Options,
    ) -> Result<(Options, Option<String>), StartError> {
        let kept = self.info.as_ref().map(kept_options).transpose()?.unwrap_or_default();
        let freedoms = given.kept_freedoms(&kept);
        Ok((given.config.under(given.clone().over(kept))?, freedoms))
    }

    /// Opens it for this agent. What had to be mended is told.
    pub(crate) async fn context(&self, built: &Built) -> Result<RunContext, StartError> {
        let (context, mended) = self.context_and_mended(built).await?;
        if let Some(what) = mended {
            print::complain(&what);
        }
        Ok(context)
    }

    /// The same, with what had to be mended.
    pub(crate) async fn context_and_mended(
        &self,
        built: &Built,
    ) -> Result<(RunContext, Option<String>), StartError> {
        let memory = self.store.open(&self.name).await?;
        let mended = memory.repaired();
        let context = RunContext::new()
            .session(self.name.clone())
            .shared_memory(memory)
            .settings(built.settings.clone());
        Ok((context, mended))
    }
}

/// The options that a session was started with.
pub(crate) fn kept_options(info: &SessionInfo) -> Result<Options, StartError> {
    let Some(kept) = info.settings.as_deref() else {
        return Ok(Options::default());
    };
    Options::deserialize(kept).map_err(|why| {
        StartError(format!(
            "The options that session `{}` was started with cannot be read: {why}.",
            info.id
        ))
    })
}

/// What is known of a session, if it is there.
pub(crate) async fn find(
    store: &dyn SessionStore,
    name: &str,
) -> Result<Option<SessionInfo>, StartError> {
    match store.session(name).await {
        Ok(info) => Ok(Some(info)),
        Err(MemoryError::NoSession(_)) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// What is known of a session that must be there.
pub(crate) async fn known(store: &dyn SessionStore, name: &str) -> Result<SessionInfo, StartError> {
    let none = || {
        StartError(format!("There is no session `{name}`; `loopwright sessions list` lists them."))
    };
    find(store, name).await?.ok_or_else(none)
}

/// The name that was given, else one that no session has.
pub(crate) async fn name_or_fresh(
    given: Option<&str>,
    store: &dyn SessionStore,
) -> Result<String, StartError> {
    if let Some(name) = given {
        return Ok(name.to_owned());
    }
    loop {
        let name = format!("s{:08x}", SystemEnvironment.random() as u32);
        if find(store, &name).await?.is_none() {
            return Ok(name);
        }
    }
}
