//! The configuration of an agent, which all its sessions share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compaction::CompactionPolicy;
use crate::environment::Environment;
use crate::error::StepError;
use crate::event::input::{QueueMode, Urgency};
use crate::limits::Limits;
use crate::model::{ChatModel, OutputSchema, ThinkingLevel};
#[cfg(feature = "testing")]
use crate::session::parts::Parts;
use crate::session::request::layers::HookLayers;
use crate::session::sub_agents::child_agent::ChildAgent;
use crate::tool::ToolSource;
use crate::tool::toolbox::{ApprovalRules, Toolbox};

#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) model: Arc<dyn ChatModel>,
    /// Additional models, by the names that patterns use.
    pub(crate) models: BTreeMap<String, Arc<dyn ChatModel>>,
    /// The system prompt that the pattern built from the agent's header.
    pub(crate) system: Arc<str>,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) temperature: Option<f32>,
    pub(crate) tools: Toolbox,
    /// The tool sources, each with the prefix of its tools' names.
    pub(crate) sources: Vec<(String, Arc<dyn ToolSource>)>,
    /// The sub-agents, by the names of their tools.
    pub(crate) children: BTreeMap<Arc<str>, Arc<dyn ChildAgent>>,
    pub(crate) auto: ApprovalRules,
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
    /// Returns the configuration with models, tools and sub-agents replaced.
    #[cfg(feature = "testing")]
    pub(crate) fn with_parts(&self, parts: &dyn Parts) -> Config {
        let model = |(name, model): (&String, _)| (name.clone(), parts.model(Some(name), model));
        let source =
            |(prefix, source): &(String, _)| (prefix.clone(), parts.source(prefix, source));
        let child = |(name, child): (&Arc<str>, &Arc<dyn ChildAgent>)| {
            (name.clone(), child.with_parts(&*parts.of_child(name)))
        };
        Config {
            model: parts.model(None, &self.model),
            models: self.models.iter().map(model).collect(),
            tools: self.tools.clone().map_tools(|tool| parts.tool(tool)),
            sources: self.sources.iter().map(source).collect(),
            children: self.children.iter().map(child).collect(),
            ..self.clone()
        }
    }

    /// Returns the model of this name, or the agent's own if the name is `None`.
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

/// The effect of a user message while calls wait for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhileAwaiting {
    /// The message denies the pending calls as superseded by the user, and is delivered.
    #[default]
    Supersede,
    /// The message waits until all calls are resolved.
    Hold,
}
