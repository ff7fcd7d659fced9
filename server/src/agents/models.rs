//! [`Models`]: where agents get their models from.

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelInfo};

use super::rejection::AgentRejection;
use crate::rules::OperatorRules;
use crate::settings::{LlmConfig, SessionSettings};

/// Provides the models that settings name.
///
/// `EnvModels` (with the feature `coding-agent`) has those of the known providers, with the keys of
/// the environment.
pub trait Models: Send + Sync {
    /// Returns the model of a session, which [`SessionSettings::model`] names. It uses the host's
    /// keys.
    ///
    /// If there is a [`SessionSettings::base_url`], requests must be sent there: a conversation
    /// with a model on this machine must not reach another one.
    ///
    /// # Errors
    /// Returns an error if the model is unknown, there is no key for it, or it cannot send requests
    /// to the address. Its message is sent to the client.
    fn named(&self, settings: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError>;

    /// Returns the address that requests to the model of these settings are sent to, if they name
    /// none: that of a server on this machine, or one from the environment, and not that of a
    /// provider on the internet. It is stored with a new session, which is then sent nowhere else.
    /// By default there is none.
    fn address(&self, _settings: &SessionSettings) -> Option<String> {
        None
    }

    /// Checks that requests to the model of a session may be sent where its name alone leads, such
    /// as to a server on this machine. The server's own model is not checked. By default all may.
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

    /// Returns the models that sessions can name, for `GET /api/models`. It is not complete:
    /// [`named`](Models::named) may know others. By default there are none.
    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    /// Returns the model that a request to `/api/agent-chat` describes. It must use the client's
    /// key only: the client chooses the address, and no key of the host may be sent to it.
    ///
    /// Requests must be sent only where `rules` allows it: [`OperatorRules::allows_host`], and
    /// otherwise [`OperatorRules::allows_ip`] for the address that is connected to, also when a
    /// name has resolved to it. That holds for a [`LlmConfig::base_url`], and for a model whose
    /// name alone leads to a server on this machine. For the server's own model all addresses are
    /// allowed. The name of the model is checked by the server.
    ///
    /// # Errors
    /// Rejects a configuration without a key, with
    /// [`unauthorized`](AgentRejection::unauthorized), an address that is not allowed, with
    /// [`not_allowed`](AgentRejection::not_allowed), and one that no model fits.
    fn configured(
        &self,
        config: &LlmConfig,
        rules: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection>;
}
