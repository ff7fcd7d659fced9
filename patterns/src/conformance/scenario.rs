//! [`Scenario`]: a session that the suite runs many times.

use std::sync::Arc;

use loopwright_core::AgentBuilder;
use loopwright_core::event::{Decision, ExternalAction, Prompt};
use loopwright_core::log::LogEntry;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Script, ScriptedModel, ScriptedSession};
use serde_json::Value;

/// A session with a name, which the suite runs many times, its agent, and what its pattern may do.
///
/// The replies of the model, the inputs and the decisions are as in a [`ScriptedSession`]. The
/// inputs are sent in order, each once the agent is idle, or as soon as the condition of
/// [`Scenario::when`] holds.
///
/// ```
/// use loopwright_core::testing::{Script, TestTool};
/// use loopwright_patterns::conformance::Scenario;
/// use serde_json::json;
///
/// let replies = [Script::calls([("a", "search", json!({}))]), Script::text("Found.")];
/// let scenario = Scenario::new("a search", replies)
///     .request("Search the archive.")
///     .agent(|agent, _| agent.tool(TestTool::new("search")));
/// assert_eq!(scenario.name(), "a search");
/// ```
#[derive(Clone)]
pub struct Scenario {
    pub(super) name: Arc<str>,
    pub(super) session: ScriptedSession,
    agent: Vec<Arc<AgentOptions>>,
    pub(super) answers_at_limit: bool,
    pub(super) tolerates_model_errors: bool,
}

type AgentOptions = dyn Fn(AgentBuilder, &ScriptedModel) -> AgentBuilder + Send + Sync;

impl Scenario {
    /// Creates a scenario in which the models give these replies in turn, also to detached
    /// requests, and then "Done.".
    pub fn new(name: &str, replies: impl IntoIterator<Item = Script>) -> Self {
        Scenario {
            name: name.into(),
            session: ScriptedSession::new(replies).reply_with(|_| Script::text("Done.")),
            agent: Vec::new(),
            answers_at_limit: false,
            tolerates_model_errors: false,
        }
    }

    /// Sets the reply to all requests after the scripted ones, as a function of the request. A
    /// pattern that needs replies of a certain form gets them here, even for the requests that the
    /// suite causes, such as requests after a steer.
    pub fn reply_with(
        self,
        reply: impl Fn(&ChatRequest) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.map(|session| session.reply_with(reply))
    }

    /// Appends a user request.
    pub fn request(self, prompt: impl Into<Prompt>) -> Self {
        self.map(|session| session.request(prompt))
    }

    /// Appends a steer.
    pub fn steer(self, prompt: impl Into<Prompt>) -> Self {
        self.map(|session| session.steer(prompt))
    }

    /// Appends a follow-up.
    pub fn follow_up(self, prompt: impl Into<Prompt>) -> Self {
        self.map(|session| session.follow_up(prompt))
    }

    /// Appends a [signal](loopwright_core::AgentHandle::signal).
    pub fn signal(self, key: &str, value: impl Into<Value>) -> Self {
        self.map(|session| session.signal(key, value))
    }

    /// Sends the last input as soon as an entry is logged for which `holds` returns `true`, but at
    /// the latest when the agent is idle.
    pub fn when(self, holds: impl Fn(&LogEntry) -> bool + Send + Sync + 'static) -> Self {
        self.map(|session| session.when(holds))
    }

    /// Sets the decision on pending actions. Defaults to
    /// [`default_decision`](loopwright_core::testing::default_decision).
    pub fn decisions(
        self,
        decide: impl Fn(&ExternalAction) -> Decision + Send + Sync + 'static,
    ) -> Self {
        self.map(|session| session.decisions(decide))
    }

    /// Sets a function that returns the number of side effects of the pattern so far outside of the
    /// log, in all sessions; see [`ScriptedSession::effects`].
    pub fn effects(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.map(|session| session.effects(count))
    }

    /// Adds options of the agent: tools, named models, hooks. `options` is called for each session
    /// with the model that gives the replies, and must return new instances of anything with a
    /// state. Hooks must not end runs. The suite replaces the limits and the environment.
    pub fn agent(
        mut self,
        options: impl Fn(AgentBuilder, &ScriptedModel) -> AgentBuilder + Send + Sync + 'static,
    ) -> Self {
        self.agent.push(Arc::new(options));
        self
    }

    /// Declares that the pattern may answer when the budget of a run is used up. A run at its limit
    /// may then end as `Done`, if it sends no more requests than the limit allows.
    pub fn answers_at_limit(mut self) -> Self {
        self.answers_at_limit = true;
        self
    }

    /// Declares that the pattern may continue after an error of the model, such as an error of one
    /// of several requests that it sends together. A run in which a model fails may then end as
    /// `Done`, if the run ends without another error, every message of the user is answered, and
    /// the next request of the user is, too.
    ///
    /// To test crashes and aborts after such an error, let a reply of the scenario fail:
    /// [`Script::error`].
    pub fn tolerates_model_errors(mut self) -> Self {
        self.tolerates_model_errors = true;
        self
    }

    /// Returns the name of the scenario.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a model with these replies, followed by the replies of [`Scenario::reply_with`].
    pub(super) fn model(&self, replies: impl IntoIterator<Item = Script>) -> ScriptedModel {
        let model = self.session.model();
        model.set_replies(replies);
        model
    }

    /// Applies the options of the agent.
    pub(super) fn configure(&self, builder: AgentBuilder, model: &ScriptedModel) -> AgentBuilder {
        self.agent.iter().fold(builder, |builder, options| options(builder, model))
    }

    fn map(mut self, change: impl FnOnce(ScriptedSession) -> ScriptedSession) -> Self {
        self.session = change(self.session);
        self
    }
}
