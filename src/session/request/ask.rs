//! [`Ask`], a model request that differs from the agent's own settings.

use std::sync::Arc;

use schemars::JsonSchema;

use crate::compaction::tokens_of;
use crate::hooks::Hooks;
use crate::limits::Limit;
use crate::message::{Message, MessageKind};
use crate::model::{OutputSchema, ThinkingLevel, ToolChoice};
use crate::session::request::layers::HookLayers;
use crate::tool::toolbox::hex_digest;

/// Maximum length of the name of a speaker.
const MAX_SPEAKER_CHARS: usize = 100;

/// A model request: its differences from the agent's own settings.
///
/// ```
/// use loopwright_core::Ask;
/// use loopwright_core::message::UserMessage;
///
/// let critic = Ask::detached()
///     .model("critic")
///     .system("You judge drafts.")
///     .also(UserMessage::from("Is this draft good?"));
/// # let _ = critic;
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Ask {
    pub(crate) profile: Profile,
    pub(crate) messages: Option<Vec<MessageKind>>,
    pub(crate) also: Vec<MessageKind>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) temperature: Option<f32>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) stop: Vec<String>,
    pub(crate) key: Option<Arc<str>>,
    /// `true` if a reply under the key is returned whatever the request is.
    pub(crate) key_decides: bool,
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) detached: bool,
    /// The name under which a detached reply is shown, if it is.
    pub(crate) shown: Option<Arc<str>>,
    /// A digest of the pattern's own messages and settings; `None` if the request is the
    /// conversation alone. The step's profile is excluded, because it may depend on the history,
    /// and so on the reply.
    pub(crate) digest: Option<Arc<str>>,
    /// The limit that the run has reached, if this is its last request.
    pub(crate) wrap_up: Option<Limit>,
}

impl Ask {
    /// Returns a request with the agent's own settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a request whose reply stays out of the conversation, for a critic, a router or a
    /// summary.
    ///
    /// The request counts against the limits and is logged. It offers no tools unless
    /// [`Ask::tools`] names some, and the calls of its reply do not run. An interrupted reply is
    /// empty. Users see it only if it is [shown](Ask::shown).
    pub fn detached() -> Self {
        Ask { detached: true, profile: Profile::new().tools([""; 0]), ..Self::default() }
    }

    /// Sets the model, by its [name](crate::AgentBuilder::model_named) in the agent.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.profile = self.profile.model(name);
        self
    }

    /// Replaces the system prompt.
    pub fn system(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.profile = self.profile.system(prompt);
        self
    }

    /// Replaces the conversation with these messages.
    pub fn messages(mut self, messages: impl IntoIterator<Item = MessageKind>) -> Self {
        self.messages = Some(messages.into_iter().collect());
        self
    }

    /// Adds a message at the end, for this request only.
    pub fn also(mut self, message: impl Into<MessageKind>) -> Self {
        self.also.push(message.into());
        self
    }

    /// Offers only the tools of these names.
    pub fn tools<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.profile = self.profile.tools(names);
        self
    }

    /// Sets which tool must be called. With [`ToolChoice::None`], calls of a model that makes some
    /// nevertheless are skipped.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Sets how much the model thinks.
    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.profile = self.profile.thinking(level);
        self
    }

    /// Sets the sampling temperature. Models without one ignore it.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Sets the maximum number of output tokens.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Stops the reply before any of these texts. The request fails if the model's API does not
    /// support that.
    pub fn stop<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.stop = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a key for a detached request, unique within the user's request. If the log has a reply
    /// under this key to the same request (model, messages, tools and options), that reply is
    /// returned and nothing is sent. So a crash or a re-entry pays for nothing twice, as long as
    /// the conversation that the request contains is the same.
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        (self.key, self.key_decides) = (Some(key.into()), false);
        self
    }

    /// Sets a key like [`Ask::key`] that alone decides: the reply that the log has under it is
    /// returned even if the conversation, and thus the request, has changed since. So nothing is
    /// paid for twice for one request of the user, but a steer does not change the reply either.
    pub fn once(mut self, key: impl Into<Arc<str>>) -> Self {
        (self.key, self.key_decides) = (Some(key.into()), true);
        self
    }

    /// Shows the reply to a detached request to the user, under the name of who speaks, such as
    /// `critic`. It streams to front ends ([`AgentEvent::DetachedUpdate`]), and stands in the
    /// history and in exports ([`MessageKind::Detached`]). It stays out of the conversation, so
    /// later requests do not contain it. The agent's hooks see its text, as in any reply. A reply
    /// that fails, or that a steer interrupts, is withdrawn. A reply that a [key](Ask::key) finds
    /// in the log is not shown again. The name is cut to one line of 100 characters.
    ///
    /// [`AgentEvent::DetachedUpdate`]: crate::AgentEvent::DetachedUpdate
    pub fn shown(mut self, speaker: impl Into<Arc<str>>) -> Self {
        self.shown = Some(speaker_name(speaker.into()));
        self
    }

    /// Applies a profile: its model, prompt, tools, hooks and thinking level, where set.
    pub fn profile(mut self, profile: &Profile) -> Self {
        let tools = profile.tools.clone().or(self.profile.tools.take());
        self.profile = Profile { tools, ..profile.clone().within(&self.profile) };
        self
    }

    /// Fills the unset parts of the request from a profile, as [`Profile::within`] does.
    pub(crate) fn within(mut self, profile: &Profile) -> Self {
        self.digest = self.compute_digest();
        self.profile = self.profile.within(profile);
        self
    }

    /// Requests JSON that fits `T`. Read it with [`Reply::output`](crate::Reply::output).
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output = Some(Arc::new(OutputSchema::of::<T>()));
        self
    }

    /// Adds a hook for this request, after the agent's hooks.
    pub fn hook(mut self, hook: impl Hooks + 'static) -> Self {
        self.profile = self.profile.hook(hook);
        self
    }

    /// Returns a digest of the request, or `None` if it is the conversation alone.
    fn compute_digest(&self) -> Option<Arc<str>> {
        if self.messages.is_none() && self.also.is_empty() {
            return None;
        }
        let Ask {
            profile: Profile { model, system, instructions, tools, .. }, messages, also, ..
        } = self;
        let parts = (model, system, instructions, messages, also, tools);
        let text = serde_json::to_string(&parts).unwrap_or_default();
        Some(hex_digest(&text))
    }

    /// Estimates the tokens that the request adds to the conversation and the system prompt.
    pub(crate) fn tokens(&self) -> u64 {
        let also: u64 = self.also.iter().map(|body| unsaved(body).tokens()).sum();
        also + self.profile.instructions.iter().map(|text| tokens_of(text.len())).sum::<u64>()
    }
}

/// The settings of a role, such as a planner, a critic or a speaker: a model, a system prompt,
/// tools, hooks and a thinking level. Unset parts are the agent's.
///
/// ```
/// use loopwright_core::Ask;
/// use loopwright_core::model::ThinkingLevel;
/// use loopwright_core::session::Profile;
///
/// let critic = Profile::new().model("critic").system("You judge drafts.");
/// let ask = Ask::detached().profile(&critic.thinking(ThinkingLevel::High)).key("verdict");
/// # let _ = ask;
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Profile {
    pub(crate) model: Option<String>,
    pub(crate) system: Option<Arc<str>>,
    pub(crate) instructions: Vec<Arc<str>>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) thinking: Option<ThinkingLevel>,
    pub(crate) hooks: HookLayers,
    /// The name under which replies to detached requests are shown, if they are.
    pub(crate) shown: Option<Arc<str>>,
}

impl Profile {
    /// Returns an empty profile, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model, by its [name](crate::AgentBuilder::model_named) in the agent.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the system prompt.
    pub fn system(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// Adds a paragraph to the system prompt, whether the prompt is the profile's or not.
    pub fn instruction(mut self, text: impl Into<Arc<str>>) -> Self {
        self.instructions.push(text.into());
        self
    }

    /// Offers only the tools of these names.
    pub fn tools<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets how much the model thinks.
    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = Some(level);
        self
    }

    /// Adds a hook, after the agent's hooks.
    pub fn hook(mut self, hook: impl Hooks + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Shows the replies to detached requests with this profile, as [`Ask::shown`] does. So the
    /// user sees the work of a role that is otherwise invisible, such as a planner or a judge of a
    /// pattern of the library. Replies of the conversation are not affected.
    pub fn shown(mut self, speaker: impl Into<Arc<str>>) -> Self {
        self.shown = Some(speaker_name(speaker.into()));
        self
    }

    /// Fills the unset parts of this profile from another. Only tools that both allow are offered,
    /// and the other's hooks come first.
    pub(crate) fn within(mut self, outer: &Profile) -> Self {
        self.model = self.model.or_else(|| outer.model.clone());
        self.system = self.system.or_else(|| outer.system.clone());
        self.instructions.splice(0..0, outer.instructions.iter().cloned());
        self.tools = common(outer.tools.as_ref(), self.tools);
        self.thinking = self.thinking.or(outer.thinking);
        self.shown = self.shown.or_else(|| outer.shown.clone());
        self.hooks = outer.hooks.and(&self.hooks);
        self
    }
}

/// Returns the names that both lists contain. `None` means every tool.
fn common(outer: Option<&Vec<String>>, inner: Option<Vec<String>>) -> Option<Vec<String>> {
    match (outer, inner) {
        (Some(outer), Some(mut inner)) => {
            inner.retain(|name| outer.contains(name));
            Some(inner)
        }
        (outer, inner) => inner.or_else(|| outer.cloned()),
    }
}

/// Builds a message for one request only, without an id.
pub(crate) fn unsaved(body: &MessageKind) -> Arc<Message> {
    Arc::new(Message::new(Default::default(), body.clone()))
}

/// Returns the name of a speaker on one line of at most 100 characters.
fn speaker_name(name: Arc<str>) -> Arc<str> {
    match name.chars().count() <= MAX_SPEAKER_CHARS && !name.contains(char::is_control) {
        true => name,
        false => {
            let visible = name.chars().filter(|c| !c.is_control());
            visible.take(MAX_SPEAKER_CHARS).collect::<String>().into()
        }
    }
}
