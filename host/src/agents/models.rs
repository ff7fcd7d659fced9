//! [`Models`]: the source of the agents' models.

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelInfo};

use crate::rejection::AgentRejection;
use crate::rules::OperatorRules;
use crate::settings::{LlmConfig, SessionSettings};

/// A source of the models that settings name.
///
/// `EnvModels` (with the feature `coding-agent`) has the models of the known providers, with the
/// keys of the environment.
pub trait Models: Send + Sync {
    /// Returns the model of a session, which [`SessionSettings::model`] names. It uses the host's
    /// keys.
    ///
    /// With a [`SessionSettings::base_url`], requests must be sent there: a conversation with a
    /// model on this machine must not reach another one.
    ///
    /// # Errors
    /// Returns an error if the model is unknown, has no key, or cannot send requests to the
    /// address. The client receives its message.
    fn named(&self, settings: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError>;

    /// Returns the address for the model of these settings, if they name none: a server on this
    /// machine, or an address from the environment. Returns `None` for a provider on the internet.
    /// The address is stored with a new session, which then sends its requests nowhere else.
    /// Defaults to `None`.
    fn address(&self, _settings: &SessionSettings) -> Option<String> {
        None
    }

    /// Checks that the model of a session may be used where its name alone leads, such as to a
    /// server on this machine. The server's own model is not checked. By default all models pass.
    ///
    /// # Errors
    /// Rejects with [`not_allowed`](AgentRejection::not_allowed) a model at an address that `rules`
    /// does not allow, unless the operator has chosen the address.
    fn check(
        &self,
        _settings: &SessionSettings,
        _rules: &OperatorRules,
    ) -> Result<(), AgentRejection> {
        Ok(())
    }

    /// Returns the models that sessions can name, for `GET /api/models`. The list need not be
    /// complete: [`named`](Models::named) may know others. It is empty by default.
    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    /// Returns the model that a request to `/api/agent-chat` describes. It must use only the
    /// client's key: the client chooses the address, and no key of the host may be sent to it.
    ///
    /// Requests must be sent only where `rules` allows it. Check the host with
    /// [`OperatorRules::allows_host`], else the address of each connection with
    /// [`OperatorRules::allows_ip`], even if a name has resolved to it. This applies to a
    /// [`LlmConfig::base_url`], and to a model whose name alone leads to a server on this machine.
    /// For the server's own model all addresses are allowed. The server checks the name of the
    /// model.
    ///
    /// # Errors
    /// Rejects a configuration without a key with [`unauthorized`](AgentRejection::unauthorized),
    /// an address that is not allowed with [`not_allowed`](AgentRejection::not_allowed), and a
    /// configuration that fits no model.
    fn configured(
        &self,
        config: &LlmConfig,
        rules: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection>;
}
