//! [`AgentSetup`]: the input of an agent's construction.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loopwright_core::model::ModelError;
use loopwright_core::tool::ToolSpec;
use loopwright_core::{ChatModel, Extensions, Principal};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::models::Models;
use crate::rejection::AgentRejection;
use crate::rules::OperatorRules;
use crate::settings::{CustomSetting, LlmConfig, SessionSettings, non_empty};

/// The maximum number of attempts of a model request without a session. Its client waits for the
/// response, and can send it again.
pub(crate) const MAX_REQUEST_ATTEMPTS: u32 = 5;
/// The longest wait before each of them, in seconds.
pub(crate) const MAX_REQUEST_RETRY_DELAY: u32 = 4;

/// A predicate: whether a call runs without approval.
type AutoRule = Arc<dyn Fn(&ToolSpec, &Value, &Extensions) -> bool + Send + Sync>;

/// The input for building an agent: the settings of its session or request, the principal it works
/// for, and the source of its models.
///
/// An [`AgentFactory`](crate::AgentFactory) receives it.
#[non_exhaustive]
pub struct AgentSetup {
    /// The settings of the session or request itself.
    pub(super) given: SessionSettings,
    /// The given settings, completed with the defaults.
    pub(super) settings: SessionSettings,
    /// The app's own settings.
    custom: Arc<[CustomSetting]>,
    principal: Option<Principal>,
    default_system: Option<String>,
    /// `true` if the agent has called [`AgentSetup::system`], and thus has the setting.
    uses_system: AtomicBool,
    models: Option<Arc<dyn Models>>,
    pub(super) rules: Arc<OperatorRules>,
    /// The model that the operator has chosen.
    own_model: Option<String>,
    pub(super) request: Option<RequestOptions>,
    pub(super) auto: Vec<AutoRule>,
    /// `true` if the agent has taken the request's own model, with the client's key.
    is_clients_model: AtomicBool,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

/// The options of a request that runs without a session, besides the settings of a session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RequestOptions {
    /// The model that the client describes, with its own key; `None` for the model of the settings.
    pub llm_config: Option<LlmConfig>,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The maximum number of tokens of a reply.
    pub max_tokens: Option<u32>,
    /// Text after the agent's own system prompt.
    pub instructions: Option<String>,
    /// `true` if the client must list the tools that change something among the approved ones.
    pub confirm: bool,
}

impl AgentSetup {
    /// Creates the setup of a session with these settings, without models.
    pub fn new(settings: SessionSettings) -> Self {
        AgentSetup {
            given: settings.clone(),
            settings,
            custom: Arc::default(),
            principal: None,
            default_system: None,
            uses_system: AtomicBool::new(false),
            models: None,
            rules: Arc::new(OperatorRules::open()),
            own_model: None,
            request: None,
            auto: Vec::new(),
            is_clients_model: AtomicBool::new(false),
            warn: Box::new(|text| tracing::warn!("{text}")),
        }
    }

    /// Sets the defaults for settings that the session leaves out. Agents ignore defaults that they
    /// do not use.
    pub fn defaults(mut self, defaults: SessionSettings) -> Self {
        self.own_model.clone_from(&defaults.model);
        self.settings = self.settings.over(defaults);
        self
    }

    /// Sets the app's own settings. [`AgentSetup::custom`] returns their values.
    pub fn custom_settings(mut self, settings: impl Into<Arc<[CustomSetting]>>) -> Self {
        self.custom = settings.into();
        self
    }

    /// Sets the source of the model that [`AgentSetup::model`] returns.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.models = Some(models);
        self
    }

    /// Sets the prompt that [`AgentSetup::system`] returns if the settings name none. A function is
    /// called at once with the setup so far, so set the prompt last.
    pub fn default_system(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        if self.settings.system.is_none() {
            self.default_system = Some(prompt.into().of(&self));
            // The calls of the prompt's function are not the agent's.
            (self.uses_system, self.is_clients_model) = Default::default();
        }
        self
    }

    /// Sets the principal that the agent works for.
    pub fn for_principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Lets calls run without approval if `rule` returns `true`, unless the tool's own rule
    /// requires an approval. For example, a front end adds the calls that its user has allowed for
    /// good.
    pub fn approve_when(
        mut self,
        rule: impl Fn(&ToolSpec, &Value, &Extensions) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.auto.push(Arc::new(rule));
        self
    }

    /// Sets the callback that shows warnings to the host. By default they are logged.
    pub fn on_warning(mut self, show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warn = Box::new(show);
        self
    }

    /// Warns the host that the agent lacks something that the settings ask for. `text` is a
    /// sentence.
    pub fn warn(&self, text: &str) {
        (self.warn)(text);
    }

    /// Sets what the operator allows.
    pub fn rules(mut self, rules: Arc<OperatorRules>) -> Self {
        self.rules = rules;
        self
    }

    /// Turns it into the setup of one request.
    pub fn for_request(mut self, options: RequestOptions) -> Self {
        self.request = Some(options);
        limit_retries(&mut self.settings);
        self
    }

    /// Returns whether the agent uses the model that the request describes.
    pub(crate) fn is_clients_model(&self) -> bool {
        self.is_clients_model.load(Ordering::Relaxed)
    }

    /// Returns the settings, completed with the defaults. [`AgentSetup::apply`] applies limits and
    /// approvals.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Returns the system prompt of the settings, else the default of the app or server
    /// (`ServerBuilder::system`), else `None`. An agent has the
    /// setting `system` only if the function that builds it calls this method.
    pub fn system(&self) -> Option<&str> {
        self.uses_system.store(true, Ordering::Relaxed);
        self.settings.system.as_deref().or(self.default_system.as_deref())
    }

    /// Returns the default system prompt, if the settings name none.
    #[cfg(feature = "coding-agent")]
    pub(crate) fn default_prompt(&self) -> Option<&str> {
        self.default_system.as_deref()
    }

    /// Returns whether the agent has asked for the system prompt.
    pub(super) fn uses_system(&self) -> bool {
        self.uses_system.load(Ordering::Relaxed)
    }

    /// Returns the value of one of the app's own settings: from the session, else the server or
    /// command line, else the setting's default. Without any of them, an `Option` is `None`, and
    /// another type is rejected.
    ///
    /// ```
    /// use loopwright_host::{AgentSetup, CustomSetting, SessionSettings};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut settings = SessionSettings::new();
    /// settings.custom.insert("max-amount".into(), 100.into());
    /// let setup = AgentSetup::new(settings).custom_settings([
    ///     CustomSetting::number("max-amount", "The largest payment, in euros"),
    ///     CustomSetting::choice("region", "The region to search", ["eu", "us"]).default("eu"),
    /// ]);
    /// assert_eq!(setup.custom::<f64>("max-amount")?, 100.0);
    /// assert_eq!(setup.custom::<String>("region")?, "eu");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Rejects a missing or invalid value, a value of another type, and the name of an unknown
    /// setting.
    pub fn custom<T: DeserializeOwned>(&self, name: &str) -> Result<T, AgentRejection> {
        let Some(setting) = self.custom.iter().find(|setting| setting.name() == name) else {
            let why = format!(
                "The agent reads the setting `{name}`, which the app does not have: add it with \
                 `App::setting` or `ServerBuilder::setting`."
            );
            return Err(AgentRejection::internal(why));
        };
        setting.value_in(&self.settings.custom)
    }

    /// Returns the principal that the agent works for, if it is known.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Returns whether a user can decide and answer while the agent runs, as in a session. This is
    /// impossible while a request to `/api/agent-chat` streams.
    pub fn has_user(&self) -> bool {
        self.request.is_none()
    }

    /// Builds the model that the settings or the request name.
    ///
    /// # Errors
    /// Rejects a name that is unknown or that the operator does not allow, a missing name if there
    /// is no default, and a missing key.
    pub fn model(&self) -> Result<Box<dyn ChatModel>, AgentRejection> {
        let Some(models) = &self.models else {
            let why = "This server has no models by name: set them with `ServerBuilder::models`, \
                       or give the agent a model of its own.";
            return Err(AgentRejection::internal(why));
        };
        let of_client = self.request.as_ref().and_then(|request| request.llm_config.as_ref());
        if let Some(config) = of_client {
            let own = self.own_model.as_deref();
            self.is_clients_model.store(true, Ordering::Relaxed);
            self.rules.check_model(&config.model_id(), own, "/llmConfig/model")?;
            let is_own = own == Some(&*config.model_id()) && non_empty(&config.base_url).is_none();
            return match is_own {
                true => models.configured(config, &OperatorRules::open()),
                false => models.configured(config, &self.rules),
            };
        }
        if self.settings.model.is_none() {
            let why = "The session names no model, and there is no default model: give `model`, \
                       such as `openai/gpt-4o-mini`.";
            return Err(AgentRejection::bad_request("/model", why));
        }
        // Not 401: the server has no key for this model, and no token of the client helps.
        let reject = |error: ModelError| AgentRejection::bad_request("/model", error.message);
        models.named(&self.settings).map_err(reject)
    }
}

/// A function that computes a prompt for a session or a request.
type Compute = dyn Fn(&AgentSetup) -> String + Send + Sync;

/// The system prompt of sessions without one of their own: a text, or a function `Fn(&AgentSetup)
/// -> String` that computes it from the settings and the principal.
///
/// ```
/// use loopwright_host::{AgentSetup, SystemPrompt};
///
/// let text = SystemPrompt::from("You help with invoices.");
/// let computed = SystemPrompt::from(|setup: &AgentSetup| match setup.principal() {
///     Some(user) => format!("You help {user} with invoices."),
///     None => "You help with invoices.".to_owned(),
/// });
/// # let _ = (text, computed);
/// ```
#[derive(Clone)]
pub struct SystemPrompt(Arc<Compute>);

impl SystemPrompt {
    /// Returns the prompt for this setup.
    fn of(&self, setup: &AgentSetup) -> String {
        (self.0)(setup)
    }
}

impl From<&str> for SystemPrompt {
    fn from(text: &str) -> Self {
        SystemPrompt::from(text.to_owned())
    }
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        SystemPrompt(Arc::new(move |_| text.clone()))
    }
}

impl From<Arc<str>> for SystemPrompt {
    fn from(text: Arc<str>) -> Self {
        SystemPrompt(Arc::new(move |_| text.to_string()))
    }
}

impl<F> From<F> for SystemPrompt
where
    F: Fn(&AgentSetup) -> String + Send + Sync + 'static,
{
    fn from(compute: F) -> Self {
        SystemPrompt(Arc::new(compute))
    }
}

impl fmt::Debug for SystemPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemPrompt").finish_non_exhaustive()
    }
}

/// Limits the retries of a request without a session. All its waits take less than 20 seconds.
fn limit_retries(settings: &mut SessionSettings) {
    let at_most = |value: Option<u32>, max: u32| Some(value.map_or(max, |value| value.min(max)));
    settings.max_attempts = at_most(settings.max_attempts, MAX_REQUEST_ATTEMPTS);
    settings.max_retry_delay = at_most(settings.max_retry_delay, MAX_REQUEST_RETRY_DELAY);
}
