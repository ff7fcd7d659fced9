//! What an agent is made of: fixed when it is built, shared by all its sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::environment::Environment;
use crate::error::StepError;
use crate::limits::Limits;
use crate::log::compaction::CompactionPolicy;
use crate::log::input::{QueueMode, Urgency};
use crate::model::{ChatModel, OutputSchema, ThinkingLevel};
use crate::session::layers::HookLayers;
use crate::tool::ToolSource;
use crate::tool::toolbox::{AutoRules, Toolbox};

pub(crate) struct Config {
    pub(crate) model: Arc<dyn ChatModel>,
    /// Further models, by the names that patterns use.
    pub(crate) models: BTreeMap<String, Arc<dyn ChatModel>>,
    /// The system prompt, as the pattern makes it of the agent's header.
    pub(crate) system: Arc<str>,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) temperature: Option<f32>,
    pub(crate) tools: Toolbox,
    /// With the prefix of their tools' names.
    pub(crate) sources: Vec<(String, Arc<dyn ToolSource>)>,
    pub(crate) auto: AutoRules,
    pub(crate) hooks: HookLayers,
    pub(crate) limits: Limits,
    pub(crate) compaction: Option<Arc<dyn CompactionPolicy>>,
    pub(crate) steering_mode: QueueMode,
    pub(crate) follow_up_mode: QueueMode,
    pub(crate) urgency: Urgency,
    pub(crate) while_awaiting: WhileAwaiting,
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) environment: Arc<dyn Environment>,
}

impl Config {
    /// The model of this name; the agent's own where none is named.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<&Arc<dyn ChatModel>, StepError> {
        let Some(name) = name else {
            return Ok(&self.model);
        };
        self.models.get(name).ok_or_else(|| StepError::UnknownModel {
            name: name.to_owned(),
            known: self.models.keys().cloned().collect(),
        })
    }
}

/// What a user message does while calls wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhileAwaiting {
    /// What is pending is denied, "superseded by the user", and the message delivered.
    #[default]
    Supersede,
    /// The message waits until all calls are answered.
    Hold,
}
