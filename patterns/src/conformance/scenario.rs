//! [`Scenario`]: a session that the suite runs many times.

use std::sync::Arc;

use loopwright_core::AgentBuilder;
use loopwright_core::event::{Decision, ExternalAction, InputEvent, Prompt};
use loopwright_core::log::LogEntry;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{self, Script, ScriptedModel};

/// The script of a session: the replies of its model, its inputs, the decisions on pending actions,
/// and the agent.
///
/// The inputs are sent in order, each once the agent is idle, or as soon as the condition of
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
    pub(super) replies: Vec<Script>,
    reply_with: Arc<dyn Fn(&ChatRequest) -> Script + Send + Sync>,
    pub(super) inputs: Vec<Input>,
    pub(super) decide: Arc<dyn Fn(&ExternalAction) -> Decision + Send + Sync>,
    agent: Vec<Arc<AgentOptions>>,
    pub(super) effects: Option<Arc<dyn Fn() -> u64 + Send + Sync>>,
    pub(super) answers_at_limit: bool,
}

type AgentOptions = dyn Fn(AgentBuilder, &ScriptedModel) -> AgentBuilder + Send + Sync;

type Condition = Arc<dyn Fn(&LogEntry) -> bool + Send + Sync>;

/// One input of a scenario.
#[derive(Clone)]
pub(super) struct Input {
    kind: InputKind,
    prompt: Prompt,
    pub(super) when: Option<Condition>,
}

#[derive(Clone, Copy)]
enum InputKind {
    Request,
    Steer,
    FollowUp,
}

impl Input {
    pub(super) fn event(&self) -> InputEvent {
        let prompt = self.prompt.clone();
        match self.kind {
            InputKind::Request => InputEvent::UserRequest(prompt),
            InputKind::Steer => InputEvent::Steer(prompt),
            InputKind::FollowUp => InputEvent::FollowUp(prompt),
        }
    }
}

impl Scenario {
    /// Creates a scenario in which the models give these replies in turn, also to detached
    /// requests, and then "Done.".
    pub fn new(name: &str, replies: impl IntoIterator<Item = Script>) -> Self {
        Scenario {
            name: name.into(),
            replies: replies.into_iter().collect(),
            reply_with: Arc::new(|_| Script::text("Done.")),
            inputs: Vec::new(),
            decide: Arc::new(testing::default_decision),
            agent: Vec::new(),
            effects: None,
            answers_at_limit: false,
        }
    }

    /// Sets the reply to all requests after the scripted ones, as a function of the request. A
    /// pattern that needs replies of a certain form gets them here, even for the requests that the
    /// suite causes, such as requests after a steer.
    pub fn reply_with(
        mut self,
        reply: impl Fn(&ChatRequest) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.reply_with = Arc::new(reply);
        self
    }

    /// Appends a user request.
    pub fn request(self, prompt: impl Into<Prompt>) -> Self {
        self.input(InputKind::Request, prompt.into())
    }

    /// Appends a steer.
    pub fn steer(self, prompt: impl Into<Prompt>) -> Self {
        self.input(InputKind::Steer, prompt.into())
    }

    /// Appends a follow-up.
    pub fn follow_up(self, prompt: impl Into<Prompt>) -> Self {
        self.input(InputKind::FollowUp, prompt.into())
    }

    /// Sends the last input as soon as an entry is logged for which `holds` returns `true`, but at
    /// the latest when the agent is idle.
    pub fn when(mut self, holds: impl Fn(&LogEntry) -> bool + Send + Sync + 'static) -> Self {
        if let Some(last) = self.inputs.last_mut() {
            last.when = Some(Arc::new(holds));
        }
        self
    }

    /// Sets the decision on pending actions. Defaults to [`testing::default_decision`].
    pub fn decisions(
        mut self,
        decide: impl Fn(&ExternalAction) -> Decision + Send + Sync + 'static,
    ) -> Self {
        self.decide = Arc::new(decide);
        self
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

    /// Sets a function that returns the number of side effects of the pattern so far outside of the
    /// log, in all sessions; see [`testing::Scenario::effects`].
    pub fn effects(mut self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.effects = Some(Arc::new(count));
        self
    }

    /// Returns the name of the scenario.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a model with these replies, followed by the replies of [`Scenario::reply_with`].
    pub(super) fn model(&self, replies: impl IntoIterator<Item = Script>) -> ScriptedModel {
        let reply = self.reply_with.clone();
        ScriptedModel::new(replies).reply_with(move |request| reply(request))
    }

    /// Applies the options of the agent.
    pub(super) fn configure(&self, builder: AgentBuilder, model: &ScriptedModel) -> AgentBuilder {
        self.agent.iter().fold(builder, |builder, options| options(builder, model))
    }

    /// Returns the scenario for the crash tests.
    pub(super) fn for_crashes(&self) -> testing::Scenario {
        let (reply, decide) = (self.reply_with.clone(), self.decide.clone());
        let mut scenario = testing::Scenario::new(self.replies.iter().cloned())
            .reply_with(move |request| reply(request))
            .decisions(move |action| decide(action));
        for Input { kind, prompt, when } in &self.inputs {
            let prompt = prompt.clone();
            scenario = match kind {
                InputKind::Request => scenario.request(prompt),
                InputKind::Steer => scenario.steer(prompt),
                InputKind::FollowUp => scenario.follow_up(prompt),
            };
            if let Some(when) = when.clone() {
                scenario = scenario.when(move |entry| when(entry));
            }
        }
        match self.effects.clone() {
            Some(count) => scenario.effects(move || count()),
            None => scenario,
        }
    }

    fn input(mut self, kind: InputKind, prompt: Prompt) -> Self {
        self.inputs.push(Input { kind, prompt, when: None });
        self
    }
}
