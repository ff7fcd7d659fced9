//! [`Agents`]: the agents of a host by name.

use std::sync::Arc;

use loopwright_core::event::ExternalAction;
use loopwright_core::limits::Budget;
use loopwright_core::model::ModelInfo;
use loopwright_core::{GenericAgent, Principal};
use serde_json::Value;

use super::factory::AgentFactory;
use super::models::Models;
use super::setup::{AgentSetup, RequestOptions, SystemPrompt};
use crate::error::ConfigError;
use crate::rejection::AgentRejection;
use crate::rules::OperatorRules;
use crate::settings::{
    CustomSetting, CustomValues, SessionSettings, check_values, without_credentials,
};

/// The agents of a host by name, the default one first, with the source of their models, the
/// defaults of their settings, and the operator's rules. Clones share the agents.
///
/// It checks a client's settings ([`check`](Agents::check)), completes them for the session to be
/// stored with ([`settle`](Agents::settle)), and builds the agents
/// ([`for_session`](Agents::for_session), [`for_request`](Agents::for_request)).
#[derive(Clone)]
pub struct Agents {
    by_name: Vec<(Arc<str>, Arc<dyn AgentFactory>)>,
    models: Option<Arc<dyn Models>>,
    defaults: SessionSettings,
    /// The app's own settings.
    custom: Arc<[CustomSetting]>,
    system: Option<SystemPrompt>,
    run_budget: Budget,
    rules: Arc<OperatorRules>,
    /// `true` if the default agent has the sessions without settings.
    adopts_sessions: bool,
}

/// An agent that answers one request; see [`Agents::for_request`].
#[non_exhaustive]
pub struct RequestAgent {
    /// The agent.
    pub agent: GenericAgent,
    /// `true` if its model is the client's, with the client's key; otherwise the operator pays.
    pub is_clients_model: bool,
}

impl Default for Agents {
    fn default() -> Self {
        Agents {
            by_name: Vec::new(),
            models: None,
            defaults: SessionSettings::default(),
            custom: Arc::default(),
            system: None,
            run_budget: Budget::default(),
            rules: Arc::new(OperatorRules::open()),
            adopts_sessions: false,
        }
    }
}

impl Agents {
    /// Adds an agent. Returns `false`, and adds nothing, if the name is taken.
    pub fn add(&mut self, name: Arc<str>, factory: Arc<dyn AgentFactory>) -> bool {
        let is_new = self.named(Some(&name)).is_none();
        if is_new {
            self.by_name.push((name, factory));
        }
        is_new
    }

    /// Sets the source of the agents' models.
    pub fn set_models(&mut self, models: Arc<dyn Models>) {
        self.models = Some(models);
    }

    /// Sets the defaults for settings that sessions leave out.
    pub fn set_defaults(&mut self, defaults: SessionSettings) {
        self.defaults = defaults;
    }

    /// Adds one of the app's own settings.
    pub fn add_setting(&mut self, setting: CustomSetting) {
        self.custom = self.custom.iter().cloned().chain([setting]).collect();
    }

    /// Returns the app's own settings.
    pub fn custom_settings(&self) -> &[CustomSetting] {
        &self.custom
    }

    /// Checks the app's own settings, and their default values.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] that names the setting.
    pub fn check_settings(&self) -> Result<(), ConfigError> {
        CustomSetting::check_all(&self.custom)?;
        for (name, value) in &self.defaults.custom {
            let setting = self.custom.iter().find(|setting| setting.name() == name);
            let why = match setting {
                None => "is not one of the server's: add it with `ServerBuilder::setting`".into(),
                Some(setting) if setting.read(value).is_none() => {
                    format!("must be {}", setting.allowed())
                }
                Some(_) => continue,
            };
            return Err(ConfigError::new(format!("The default setting `{name}` {why}.")));
        }
        Ok(())
    }

    /// Sets the system prompt of sessions without one of their own.
    pub fn set_system(&mut self, prompt: SystemPrompt) {
        self.system = Some(prompt);
    }

    /// Sets the budget of a run.
    pub fn set_run_budget(&mut self, budget: Budget) {
        self.run_budget = budget;
    }

    /// Sets the rules for the requests of clients.
    pub fn set_rules(&mut self, rules: OperatorRules) {
        self.rules = Arc::new(rules);
    }

    /// Returns the rules for the requests of clients.
    pub fn rules(&self) -> &Arc<OperatorRules> {
        &self.rules
    }

    /// Returns whether there is no agent.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the names, the default one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.iter().map(|(name, _)| &**name)
    }

    /// Gives the sessions that have no settings to the default agent: sessions that a program made
    /// with [`GenericAgent::open`], without a host.
    pub fn adopt_sessions(&mut self) {
        self.adopts_sessions = true;
    }

    /// Returns the settings of a stored session; see [`SessionSettings::from_stored`].
    pub fn stored_settings(&self, stored: Option<&Value>) -> SessionSettings {
        match (stored, self.by_name.first()) {
            (None, Some((name, _))) if self.adopts_sessions => {
                SessionSettings { agent: Some(name.to_string()), ..SessionSettings::default() }
            }
            _ => SessionSettings::from_stored(stored),
        }
    }

    /// Returns whether the agent of these settings is registered.
    pub fn has(&self, settings: &SessionSettings) -> bool {
        self.named(settings.agent.as_deref()).is_some()
    }

    /// Returns whether a session with these settings can be opened here: its agent is registered,
    /// and its model is allowed.
    pub fn can_open(&self, settings: &SessionSettings) -> bool {
        self.has(settings) && self.check_model(settings).is_ok()
    }

    /// Checks a client's settings for a session against the rules of the operator.
    ///
    /// # Errors
    /// Rejects the first setting that is unknown, invalid or not allowed.
    pub fn check(&self, settings: &SessionSettings) -> Result<(), AgentRejection> {
        self.check_model(settings)?;
        check_values(&self.custom, &settings.custom, &CustomValues::new())?;
        self.rules.check_approvals(settings.approve.as_deref())
    }

    /// Checks a client's changes to the settings of a session against the rules of the operator.
    ///
    /// # Errors
    /// Rejects the first changed setting that is unknown, invalid or not allowed.
    pub fn check_change(
        &self,
        old: &SessionSettings,
        new: &SessionSettings,
    ) -> Result<(), AgentRejection> {
        if new.approve != old.approve {
            self.rules.check_approvals(new.approve.as_deref())?;
        }
        check_values(&self.custom, &new.custom, &old.custom)?;
        self.check_model(new)
    }

    fn check_model(&self, settings: &SessionSettings) -> Result<(), AgentRejection> {
        let own = self.defaults.model.as_deref();
        match settings.model.as_deref() {
            Some(model) => self.rules.check_model(model, own, "/model")?,
            None => return Ok(()),
        }
        match &self.models {
            Some(models) if settings.model.as_deref() != own => models.check(settings, &self.rules),
            _ => Ok(()),
        }
    }

    /// Returns the name of the agent of these settings, or an empty name if it is not registered.
    pub fn name_of(&self, settings: &SessionSettings) -> Arc<str> {
        let agent = self.named(settings.agent.as_deref());
        agent.map_or_else(Arc::default, |(name, _)| name.clone())
    }

    fn named(&self, name: Option<&str>) -> Option<&(Arc<str>, Arc<dyn AgentFactory>)> {
        match name {
            Some(name) => self.by_name.iter().find(|(other, _)| **other == *name),
            None => self.by_name.first(),
        }
    }

    /// Returns the models that sessions can name, and the name of the default one.
    pub fn models(&self) -> (Vec<ModelInfo>, Option<String>) {
        let mut models = self.models.as_ref().map(|models| models.list()).unwrap_or_default();
        models.retain(|model| {
            let mut settings = SessionSettings::new();
            settings.model = Some(model.id.to_string());
            self.check_model(&settings).is_ok()
        });
        (models, self.defaults.model.clone())
    }

    /// Completes the settings that a new session is stored with. They name the agent, the model,
    /// and the model's address without credentials, so that the conversation is sent nowhere else
    /// later. The path of a directory becomes absolute.
    ///
    /// `old` are the session's settings before a change. With the same model, the session keeps its
    /// address, or the lack of one, which stands for the provider's own.
    ///
    /// # Errors
    /// Rejects an agent that is not registered.
    pub fn settle(
        &self,
        settings: &mut SessionSettings,
        old: Option<&SessionSettings>,
    ) -> Result<(), AgentRejection> {
        self.choose(settings)?;
        if settings.model.is_none() {
            settings.model.clone_from(&self.defaults.model);
        }
        let is_kept = old.is_some_and(|old| old.model.is_some() && old.model == settings.model);
        if settings.base_url.is_none() && !is_kept {
            if settings.model == self.defaults.model {
                settings.base_url.clone_from(&self.defaults.base_url);
            }
            if let (None, Some(models)) = (&settings.base_url, &self.models) {
                settings.base_url = models.address(settings);
            }
        }
        settings.base_url = settings.base_url.as_deref().map(without_credentials);
        let has_directory = settings.work_dir.as_ref().is_some_and(|path| !path.is_empty());
        if let (true, Some((_, factory))) = (has_directory, self.named(settings.agent.as_deref())) {
            *settings = factory.with_defaults(std::mem::take(settings)); // the path is absolute
        }
        Ok(())
    }

    /// Fills in the name of the agent.
    fn choose(&self, settings: &mut SessionSettings) -> Result<(), AgentRejection> {
        let Some((name, _)) = self.named(settings.agent.as_deref()) else {
            let names: Vec<String> = self.names().map(|name| format!("`{name}`")).collect();
            let asked = settings.agent.as_deref().unwrap_or_default();
            let why = format!(
                "There is no agent `{asked}` here: leave `agent` out, or give one of {}.",
                names.join(", ")
            );
            return Err(AgentRejection::bad_request("/agent", why));
        };
        settings.agent = Some(name.to_string());
        Ok(())
    }

    /// Builds the agent of a session.
    ///
    /// # Errors
    /// Fails if the agent is not registered, its model is not allowed, or its factory rejects the
    /// settings.
    pub async fn for_session(
        &self,
        settings: SessionSettings,
        principal: Option<&Principal>,
    ) -> Result<GenericAgent, AgentRejection> {
        let factory = self.factory(&settings)?;
        self.check_model(&settings)?;
        let setup = self.setup(settings, principal, None);
        let agent = factory.build(&setup).await?.with_run_budget(&self.run_budget);
        Ok(agent.with_session_budget(self.rules.of_session()))
    }

    /// Returns the change that a call in a session would make, as a unified diff, if the call has a
    /// preview.
    ///
    /// # Errors
    /// Fails if the agent is not registered, or its factory has a reason for no preview.
    pub async fn preview(
        &self,
        settings: SessionSettings,
        principal: Option<&Principal>,
        action: &ExternalAction,
    ) -> Result<Option<String>, AgentRejection> {
        let factory = self.factory(&settings)?;
        factory.preview(&self.setup(settings, principal, None), action).await
    }

    /// Builds the agent that answers one request.
    ///
    /// # Errors
    /// Fails if the agent is not registered, the settings or the model are not allowed, or the
    /// agent's factory rejects them.
    pub async fn for_request(
        &self,
        mut settings: SessionSettings,
        options: RequestOptions,
        principal: Option<&Principal>,
    ) -> Result<RequestAgent, AgentRejection> {
        self.choose(&mut settings)?;
        check_values(&self.custom, &settings.custom, &CustomValues::new())?;
        self.rules.check_approvals(settings.approve.as_deref())?;
        let factory = self.factory(&settings)?;
        let instructions = options.instructions.clone();
        let setup = self.setup(settings, principal, Some(options));
        let mut agent = factory.build(&setup).await?.with_run_budget(&self.run_budget);
        if let Some(instructions) = instructions {
            agent = agent.with_instructions(&instructions);
        }
        Ok(RequestAgent { agent, is_clients_model: setup.is_clients_model() })
    }

    /// Returns the setup of a session, or of a request to `/api/agent-chat`.
    fn setup(
        &self,
        settings: SessionSettings,
        principal: Option<&Principal>,
        request: Option<RequestOptions>,
    ) -> AgentSetup {
        let defaults = self.defaults_of(&settings);
        let mut setup = AgentSetup::new(settings)
            .defaults(defaults)
            .custom_settings(self.custom.clone())
            .rules(self.rules.clone());
        if let Some(models) = &self.models {
            setup = setup.models(models.clone());
        }
        if let Some(principal) = principal {
            setup = setup.for_principal(principal.clone());
        }
        if let Some(options) = request {
            setup = setup.for_request(options);
        }
        match &self.system {
            Some(system) => setup.default_system(system.clone()), // may depend on all of these
            None => setup,
        }
    }

    /// Returns the settings of a session with the defaults filled in, for lists.
    pub fn with_defaults(&self, settings: SessionSettings) -> SessionSettings {
        let Some((_, factory)) = self.named(settings.agent.as_deref()) else {
            return settings; // the defaults belong to other agents
        };
        let defaults = self.defaults_of(&settings);
        factory.with_defaults(settings.over(defaults))
    }

    /// Returns the defaults of a session with these settings. A session with a model has stored its
    /// address too. Without a stored address, its requests go only to the provider.
    fn defaults_of(&self, settings: &SessionSettings) -> SessionSettings {
        let mut defaults = self.defaults.clone();
        if settings.model.is_some() && settings.base_url.is_none() {
            defaults.base_url = None;
        }
        defaults
    }

    /// Returns the commands of a session's agent.
    pub fn commands(&self, settings: &SessionSettings) -> Vec<&'static str> {
        let factory = self.named(settings.agent.as_deref());
        let commands = |(_, factory): &(_, Arc<dyn AgentFactory>)| {
            factory.commands(&settings.clone().over(self.defaults.clone()))
        };
        factory.map(commands).unwrap_or_default()
    }

    /// Returns whether facts are distilled from a session when it ends.
    #[cfg(feature = "long-term")]
    pub fn distils_at_end(&self, settings: &SessionSettings) -> bool {
        let is_on = settings.distil_at_end.or(self.defaults.distil_at_end) == Some(true);
        is_on && self.commands(settings).contains(&loopwright_memory::long_term::DISTIL_COMMAND)
    }

    /// Checks that the agent of a session is registered.
    ///
    /// # Errors
    /// Fails with [`RejectionKind::UnknownAgent`](crate::RejectionKind::UnknownAgent).
    pub fn check_known(&self, settings: &SessionSettings) -> Result<(), AgentRejection> {
        self.factory(settings).map(|_| ())
    }

    fn factory(
        &self,
        settings: &SessionSettings,
    ) -> Result<&Arc<dyn AgentFactory>, AgentRejection> {
        match self.named(settings.agent.as_deref()) {
            Some((_, factory)) => Ok(factory),
            None => Err(self.unknown(settings)),
        }
    }

    /// Returns the error for a session whose agent is not registered.
    fn unknown(&self, settings: &SessionSettings) -> AgentRejection {
        if settings.is_foreign() {
            let why = "The session's settings are not those of an agent of this server: here it \
                       can only be read. Use it with the program that has created it.";
            return AgentRejection::unknown_agent(why);
        }
        let agent = settings.agent.as_deref().unwrap_or_default();
        let why = format!(
            "The session belongs to the agent `{agent}`, which this server does not have: here it \
             can only be read. Use it where that agent is."
        );
        AgentRejection::unknown_agent(why)
    }
}
