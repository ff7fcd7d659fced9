//! The choice of the session and the options for a target.

use crate::error::StartError;
use crate::options::{Flags, Options};
use crate::session::{Session, find, name_or_random};
use crate::settings::Settings;
use crate::tui::effects::host::{Host, Target, with_retry_hint};
use crate::tui::state::{Outcome, Tone};

impl Host {
    /// Returns the session and the options to open it with.
    pub(super) async fn choose(
        &mut self,
        target: Target,
    ) -> Result<(Session, Settings), StartError> {
        match target {
            Target::First(which) => {
                let name = which.name.clone();
                self.first = Some(which);
                let chosen = self.first_session().await;
                match (chosen, name) {
                    (Err(why), Some(name)) => Err(with_retry_hint(&why, &name)),
                    (chosen, _) => chosen,
                }
            }
            Target::Same(settings) => match &self.session {
                Some(session) => Ok((session.clone(), *settings)),
                None => {
                    let Settings { given, mcp, .. } = *settings;
                    self.cli_options = Options { settings: Flags(given), mcp };
                    self.first_session().await
                }
            },
            Target::Named(name) => {
                match self.session.as_ref().filter(|session| *session.name == *name) {
                    Some(_) if self.open.is_some() => {
                        Err(StartError(format!("Session `{name}` is already open.")))
                    }
                    Some(session) => Ok((session.clone(), self.settings.clone())),
                    None if self.is_first(&name) => self.first_session().await,
                    None => {
                        let session = self.named(&name).await?;
                        // The session resumes with its stored options.
                        let given = self.cli_options.clone().not_stored();
                        let settings = self.resolve_settings(&session, &given)?;
                        self.given = given;
                        Ok((session, settings))
                    }
                }
            }
            // Permissions of the current session are not inherited.
            Target::Fork(name) => {
                let session = self.named(&name).await?;
                let bare = Session { info: None, ..session.clone() };
                Ok((session, self.resolve_settings(&bare, &self.new_session_options())?))
            }
            Target::New => {
                let store = self.store()?;
                let name = name_or_random(None, &*store).await?.into();
                let session = Session { store, name, info: None, is_stored: self.is_persistent() };
                let settings = self.resolve_settings(&session, &self.new_session_options())?;
                Ok((session, settings))
            }
        }
    }

    /// Returns a session that exists in the store.
    async fn named(&self, name: &str) -> Result<Session, StartError> {
        let store = self.store()?;
        let none = || {
            StartError(format!(
                "There is no session `{name}`: `/sessions` lists the sessions, `/new` starts one."
            ))
        };
        let info = find(&*store, name).await?.ok_or_else(none)?;
        info.require_root()?;
        Ok(Session { is_stored: self.is_persistent(), ..Session::existing(store, info) })
    }

    /// Returns whether this is the command line's session, which could not be opened.
    fn is_first(&self, name: &str) -> bool {
        let first = self.first.as_ref().and_then(|which| which.name.as_deref());
        self.session.is_none() && first == Some(name)
    }

    fn is_persistent(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_stored)
    }

    /// Returns the options of the command line, with the model and the thinking level in use.
    fn new_session_options(&self) -> Options {
        let used = &self.settings.given;
        let mut options = self.cli_options.clone();
        let settings = &mut options.settings;
        settings.model.clone_from(&used.model);
        settings.base_url.clone_from(&used.base_url);
        settings.models.clone_from(&used.models);
        settings.thinking = used.thinking;
        options
    }

    /// Returns the options for a session, and reports permissions that were stored with it.
    pub(super) fn resolve_settings(
        &self,
        session: &Session,
        cli_options: &Options,
    ) -> Result<Settings, StartError> {
        let (settings, permissions) =
            session.settings_and_permissions(cli_options, &self.config)?;
        if let Some(permissions) = permissions {
            self.send_outcome(Outcome::Notice(Tone::Loud, permissions));
        }
        Ok(settings)
    }

    async fn first_session(&mut self) -> Result<(Session, Settings), StartError> {
        let session = match &self.first {
            Some(which) => Session::choose(which, &self.cli_options, &self.config).await?,
            None => return Err(StartError("There is no session to open.".into())),
        };
        let settings = self.resolve_settings(&session, &self.cli_options)?;
        self.given = self.cli_options.clone();
        Ok((session, settings))
    }
}
