//! The agent that the settings define.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::GenericAgent;
use loopwright_core::event::ExternalAction;
use loopwright_core::model::ModelInfo;
use loopwright_host::{
    AgentFactory, AgentRejection, AgentSetup, CustomSetting, EnvModels, Models, SessionSettings,
    SystemPrompt,
};
use loopwright_memory::long_term::DISTIL_COMMAND;
use serde_json::Value;

use super::allowed::Allowed;
use super::catalogue::catalogue;
use super::model;
use crate::config::Config;
use crate::error::StartError;
use crate::facts;
use crate::mcp::{Consent, Servers};
use crate::output::{self, Verbosity};
use crate::program::Kind;
use crate::settings::Settings;
use crate::telemetry::AppTelemetry;

/// An agent, and the settings that its session stores so that it can be continued.
pub(crate) struct Built {
    /// The name of the agent.
    pub(crate) name: Arc<str>,
    pub(crate) agent: GenericAgent,
    pub(crate) model: ModelInfo,
    pub(crate) root: PathBuf,
    /// The commands that a request can begin with, such as `/plan`.
    pub(crate) commands: Vec<&'static str>,
    /// `true` if the agent distils facts from its sessions on request.
    pub(crate) distils: bool,
    /// `true` if it also does so when a session ends.
    pub(crate) distils_at_end: bool,
    pub(crate) previews: Previews,
    /// The serialised settings of the session.
    pub(crate) settings: Value,
    pub(crate) telemetry: AppTelemetry,
    /// The servers of the user's editor that the user has not accepted yet.
    pub(crate) consents: Vec<Consent>,
    /// A sentence about each server of the user's editor that is left out.
    pub(crate) left_out: Vec<String>,
}

/// The previews of an agent's pending calls.
#[derive(Clone)]
pub(crate) struct Previews {
    factory: Arc<dyn AgentFactory>,
    setup: Arc<AgentSetup>,
}

impl Previews {
    /// Returns the change that a call would make, as a unified diff, or `None` if it has no
    /// preview. The error is a sentence that says why the preview failed.
    pub(crate) async fn of(&self, action: &ExternalAction) -> Result<Option<String>, String> {
        let preview = self.factory.preview(&self.setup, action).await;
        preview.map_err(|rejection| rejection.message().to_owned())
    }
}

/// Builds the agent that the settings describe. Notes about the choice of the model go to standard
/// error.
///
/// # Errors
///
/// Fails if the directory, the model or one of the tools that the settings name does not exist.
pub(crate) async fn build(
    settings: &Settings,
    allowed: &Allowed,
    config: &Config,
    verbosity: Verbosity,
) -> Result<Built, StartError> {
    let active = &settings.active;
    let (name, kind) = config.program.agent(active.agent.as_deref())?;
    let root = active.workspace()?.root().to_owned();
    let memory = match kind {
        Kind::Coding => facts::open_if(active.memory, &config.program.names)?,
        Kind::Own(_) => None,
    };
    let servers = match kind {
        Kind::Coding => Servers::of_session(settings, config, verbosity)?,
        Kind::Own(_) => Servers::none(settings),
    };
    let (consents, left_out) = (servers.consents(), servers.left_out());
    let plan = Plan {
        factory: kind.factory(memory, config.program.system.as_ref(), servers)?,
        system: config.program.system.as_ref(),
        custom: &config.program.settings,
        models: Arc::new(models(active, config)?),
        given: settings.given.clone(),
        allowed,
        root: &root,
    };
    let mut wanted = active.clone();
    wanted.agent = Some(name.to_string());
    let mut model = active.model.clone();
    let agent = match plan.build(&wanted).await {
        // No model is named, and the agent has none of its own.
        Err(rejection) if model.is_none() && rejection.path() == Some("/model") => {
            let choice = model::detect(active, config).await?;
            if verbosity.notes() {
                output::info(&choice.note);
            }
            wanted.model = Some(choice.model.clone());
            model = Some(choice.model);
            plan.build(&wanted).await
        }
        built => built,
    };
    let agent = agent.map_err(|rejection| of_option(&rejection))?;
    if verbosity.notes() && active.model.as_deref().is_some_and(|name| name.starts_with("offline"))
    {
        output::info(model::OFFLINE);
    }
    let commands = plan.factory.commands(&wanted);
    let distils = commands.contains(&DISTIL_COMMAND);
    let distils_at_end = distils && active.distil_at_end.unwrap_or_default();
    let info = agent.model().clone();
    let model = model.unwrap_or_else(|| info.id.to_string());
    wanted.model = Some(model.clone());
    let base_url = wanted.base_url.clone().or_else(|| plan.models.address(&wanted));
    let stored = settings.to_store(&name, &model, base_url, &root);
    let settings = serde_json::to_value(stored)
        .map_err(|why| StartError(format!("The options cannot be stored: {why}.")))?;
    let previews = Previews { setup: Arc::new(plan.setup(&wanted)), factory: plan.factory };
    Ok(Built {
        name,
        agent,
        model: info,
        root,
        commands,
        distils,
        distils_at_end,
        previews,
        settings,
        telemetry: config.telemetry.clone(),
        consents,
        left_out,
    })
}

/// Returns the source of models.
fn models(settings: &SessionSettings, config: &Config) -> Result<EnvModels, StartError> {
    let catalogue = catalogue(settings.models.as_ref(), &config.program.names)?;
    Ok(EnvModels::default().catalogue(catalogue).timeouts(settings))
}

/// Everything that an agent is built with, except its model.
struct Plan<'a> {
    factory: Arc<dyn AgentFactory>,
    models: Arc<EnvModels>,
    /// The default system prompt of the app.
    system: Option<&'a SystemPrompt>,
    /// The app's own settings.
    custom: &'a [CustomSetting],
    /// The settings of the command line and the session.
    given: SessionSettings,
    allowed: &'a Allowed,
    root: &'a Path,
}

impl Plan<'_> {
    async fn build(&self, wanted: &SessionSettings) -> Result<GenericAgent, AgentRejection> {
        self.factory.build(&self.setup(wanted)).await
    }

    fn setup(&self, wanted: &SessionSettings) -> AgentSetup {
        let mut settings = wanted.clone();
        settings.work_dir = Some(self.root.display().to_string());
        let mut given = self.given.clone();
        (settings.models, given.models) = (None, None); // they are in the catalogue
        let allowed = self.allowed.clone();
        let setup = AgentSetup::new(given)
            .defaults(settings)
            .custom_settings(self.custom)
            .models(self.models.clone())
            .for_principal(facts::user())
            .on_warning(output::error)
            .approve_when(move |tool, _, _| allowed.has(&tool.name));
        match self.system {
            Some(system) => setup.default_system(system.clone()), // it may depend on all of these
            None => setup,
        }
    }
}

/// Returns the error for an option that an agent rejected.
fn of_option(rejection: &AgentRejection) -> StartError {
    let path = rejection.path().unwrap_or_default();
    let path = path.strip_prefix("/custom").unwrap_or(path);
    let name = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    if matches!(name, "" | "model") {
        return StartError(rejection.message().to_owned());
    }
    let setting = SessionSettings::ALL.iter().find(|setting| setting.json_name() == name);
    let flag = setting.map_or(name.to_owned(), |setting| setting.key().replace('_', "-"));
    StartError(format!("--{flag}: {}", rejection.message()))
}
