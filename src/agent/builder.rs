//! [`AgentBuilder`], the options of an agent.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::agent::GenericAgent;
use crate::agent::child::ChildTool;
use crate::compaction::CompactionPolicy;
use crate::environment::{Environment, SystemEnvironment};
use crate::error::AgentError;
use crate::event::input::{QueueMode, Urgency};
use crate::extensions::Extensions;
use crate::hooks::{
    BeforeEnd, BeforeToolCall, FnAroundToolCall, FnBeforeToolCall, FnConvertToLlm,
    FnHandleBeforeEnd, FnHandleStepTextPart, FnOffersTool, FnTransformContext, HookContext, Hooks,
    Next, RequestInfo, TextAction, TextPart, ToolCallInfo,
};
use crate::limits::Limits;
use crate::message::{Message, ToolResult};
use crate::model::{ChatModel, OutputSchema, ThinkingLevel};
use crate::pattern::BehaviorPattern;
use crate::session::config::{Config, WhileAwaiting};
use crate::session::request::layers::HookLayers;
use crate::session::sub_agents::child_agent::ChildAgent;
use crate::tool::schema::Schema;
use crate::tool::toolbox::{ApprovalRules, Toolbox};
use crate::tool::{Tool, ToolSource, ToolSpec};

/// A builder of a [`GenericAgent`].
///
/// # Contract
///
/// - Only a model and a pattern are required. If an option is set twice, the last value wins.
///   Tools, tool sources, named models, rules of approval
///   ([`approve`](AgentBuilder::approve), [`approve_when`](AgentBuilder::approve_when)) and hooks,
///   including closures, are added to the earlier ones.
/// - Closures may be called from several sessions at the same time. They must not block their
///   thread, except in [`Tool::call`].
/// - A predicate that panics requires approval. A hook that panics ends the run with
///   [`StepError::Panicked`](crate::StepError::Panicked).
/// - Hooks are async. Their futures are dropped if the run is aborted or reaches its time limit.
///
/// # Example
///
/// ```
/// use loopwright_core::hooks::BeforeToolCall;
/// use loopwright_core::limits::Budget;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, ToolError, tool_fn};
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct MyPattern;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for MyPattern {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?.finish()
/// #     }
/// # }
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Delete {
///     path: String,
/// }
///
/// let delete = tool_fn("delete", "Deletes a file.", async |delete: Delete, _| {
///     Ok::<_, ToolError>(format!("Deleted {}.", delete.path))
/// });
/// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Done.")]), MyPattern)
///     .system("You keep the folder tidy.")
///     .tool(delete)
///     .limits(Budget::default().turns(10).cost(0.50))
///     .before_tool_call(async |_, call| match call.arguments["path"].as_str() {
///         Some(path) if path.starts_with("keep/") => BeforeToolCall::Block("It is kept.".into()),
///         _ => BeforeToolCall::Proceed,
///     })
///     .build()?;
/// # Ok::<(), loopwright_core::agent::AgentError>(())
/// ```
#[must_use = "call build() to get the agent"]
pub struct AgentBuilder {
    model: Arc<dyn ChatModel>,
    pattern: Arc<dyn BehaviorPattern>,
    models: BTreeMap<String, Arc<dyn ChatModel>>,
    header: String,
    thinking: ThinkingLevel,
    max_tokens: Option<u32>,
    temperature: Option<f32>,
    tools: Vec<Arc<dyn Tool>>,
    sources: Vec<(String, Arc<dyn ToolSource>)>,
    children: BTreeMap<Arc<str>, Arc<dyn ChildAgent>>,
    auto: ApprovalRules,
    hooks: HookLayers,
    limits: Limits,
    compaction: Option<Arc<dyn CompactionPolicy>>,
    steering_mode: QueueMode,
    follow_up_mode: QueueMode,
    urgency: Urgency,
    while_awaiting: WhileAwaiting,
    output: Option<Arc<OutputSchema>>,
    environment: Arc<dyn Environment>,
}

impl GenericAgent {
    /// Returns a builder for an agent with this model and pattern.
    pub fn builder(
        model: impl ChatModel + 'static,
        pattern: impl BehaviorPattern + 'static,
    ) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model), Arc::new(pattern))
    }
}

impl AgentBuilder {
    fn new(model: Arc<dyn ChatModel>, pattern: Arc<dyn BehaviorPattern>) -> Self {
        let tools = pattern.tools();
        AgentBuilder {
            model,
            pattern,
            models: BTreeMap::new(),
            header: String::new(),
            thinking: ThinkingLevel::Off,
            max_tokens: None,
            temperature: None,
            tools,
            sources: Vec::new(),
            children: BTreeMap::new(),
            auto: ApprovalRules::default(),
            hooks: HookLayers::default(),
            limits: Limits::default(),
            compaction: None,
            steering_mode: QueueMode::All,
            follow_up_mode: QueueMode::OneAtATime,
            urgency: Urgency::default(),
            while_awaiting: WhileAwaiting::default(),
            output: None,
            environment: Arc::new(SystemEnvironment),
        }
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// Fails if two tools share a name (tools of the pattern included), or if a name or a schema is
    /// invalid. Without the feature `schema`, fails if a tool has only a schema.
    pub fn build(self) -> Result<GenericAgent, AgentError> {
        if let Some(output) = &self.output {
            Schema::compile_output(&output.schema).map_err(AgentError::OutputSchema)?;
        }
        let tools = Toolbox::new().with_all(self.tools)?;
        let config = Config {
            model: self.model,
            models: self.models,
            system: self.pattern.system_instruction(&self.header).into(),
            thinking: self.thinking,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            tools,
            sources: self.sources,
            children: self.children,
            auto: self.auto,
            hooks: self.hooks,
            limits: self.limits,
            compaction: self.compaction,
            steering_mode: self.steering_mode,
            follow_up_mode: self.follow_up_mode,
            urgency: self.urgency,
            while_awaiting: self.while_awaiting,
            output: self.output,
            environment: self.environment,
        };
        Ok(GenericAgent { config: Arc::new(config), pattern: self.pattern })
    }

    /// Sets the header of the system prompt. The pattern may append to it.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.header = prompt.into();
        self
    }

    /// Sets how much the model thinks; off by default.
    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = level;
        self
    }

    /// Sets the maximum number of output tokens per request.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the sampling temperature.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Adds a model under a name, for patterns and compaction: a critic, for example, or a cheaper
    /// model for summaries.
    pub fn model_named(mut self, name: impl Into<String>, model: impl ChatModel + 'static) -> Self {
        self.models.insert(name.into(), Arc::new(model));
        self
    }

    // ---- tools ----------------------------------------------------------------------------------

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Returns the specs of the tools added so far. Tools from sources are not included.
    pub fn tool_specs(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools.iter().map(|tool| tool.spec())
    }

    /// Returns whether a source of tools was added.
    pub fn has_tool_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Adds a source of tools, which are listed at the start of each run. Their names get the
    /// prefix, and are made valid and unique.
    pub fn tool_source(
        mut self,
        prefix: impl Into<String>,
        source: impl ToolSource + 'static,
    ) -> Self {
        self.sources.push((prefix.into(), Arc::new(source)));
        self
    }

    /// Adds a sub-agent. The model gives it tasks with a tool of this name, and a pattern calls it
    /// with [`Call::child`](crate::session::Call::child).
    ///
    /// Each call opens a session of the sub-agent, in the store of the calling session. Sub-agents
    /// called by one reply work at the same time, and continue after a crash. Their pending actions
    /// appear in the session at the root, with their [path](crate::event::ExternalAction::path). An
    /// abort stops them.
    ///
    /// Sub-agents share the budgets of the root. The rest of a budget is divided among the
    /// sub-agents that start together, and each returns its unused part when it ends.
    /// [`Limits::depth`] limits the nesting.
    ///
    /// The result of the call is the last reply of the sub-agent, or its typed value as JSON. The
    /// call needs no approval.
    ///
    /// ```
    /// use loopwright_core::testing::{Script, ScriptedModel};
    /// use loopwright_core::GenericAgent;
    /// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # struct Loop;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Loop {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         loop {
    /// #             let reply = step.ask().await?;
    /// #             if step.call_tools(&reply).await?.awaits_user() {
    /// #                 return Ok(StepEnd::AwaitingAction);
    /// #             }
    /// #             if !reply.has_calls() { return reply.finish() }
    /// #         }
    /// #     }
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let librarian = ScriptedModel::new([Script::text("Chapter 7.")]);
    /// let librarian = GenericAgent::builder(librarian, Loop).build()?;
    /// let model = ScriptedModel::new([
    ///     Script::calls([("c1", "librarian", serde_json::json!({ "task": "Where is it?" }))]),
    ///     Script::text("It is in chapter 7."),
    /// ]);
    /// let agent = GenericAgent::builder(model, Loop)
    ///     .child("librarian", "Finds passages in the book.", librarian)
    ///     .build()?;
    /// let handle = agent.session().await?;
    /// assert_eq!(handle.prompt("Where is the whale?").await?.text, "It is in chapter 7.");
    /// # Ok(()) }
    /// ```
    pub fn child(
        mut self,
        name: impl Into<Arc<str>>,
        description: impl Into<String>,
        agent: GenericAgent,
    ) -> Self {
        let name = name.into();
        self.tools.push(Arc::new(ChildTool::new(name.clone(), description.into())));
        self.children.insert(name, Arc::new(agent));
        self
    }

    /// Lets the tools of these names run without approval, unless a tool's own rule requires it.
    pub fn approve<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.auto.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Lets all tools run without approval, unless a tool's own rule requires it.
    pub fn approve_all(mut self) -> Self {
        self.auto.all = true;
        self
    }

    /// Lets calls run without approval if `predicate` returns `true`, unless the tool's own rule
    /// requires it. With several predicates, one `true` is enough.
    pub fn approve_when(
        mut self,
        predicate: impl Fn(&ToolSpec, &Value, &Extensions) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.auto.predicates.push(Arc::new(predicate));
        self
    }

    // ---- the loop -------------------------------------------------------------------------------

    /// Sets how many steering messages the pattern takes at a time; all by default.
    pub fn steering_mode(mut self, mode: QueueMode) -> Self {
        self.steering_mode = mode;
        self
    }

    /// Sets how many follow-ups the pattern takes at a time; one by default.
    pub fn follow_up_mode(mut self, mode: QueueMode) -> Self {
        self.follow_up_mode = mode;
        self
    }

    /// Sets the urgency of steers without their own; [`Urgency::SkipPending`] by default.
    pub fn urgency(mut self, urgency: Urgency) -> Self {
        self.urgency = urgency;
        self
    }

    /// Sets what a user message does while calls wait for decisions; [`WhileAwaiting::Supersede`]
    /// by default.
    pub fn while_awaiting(mut self, rule: WhileAwaiting) -> Self {
        self.while_awaiting = rule;
        self
    }

    /// Sets the budgets of runs and sessions, and other limits. A
    /// [`Budget`](crate::limits::Budget) bounds each run. Earlier limits are replaced; see
    /// [`limits_mut`](AgentBuilder::limits_mut).
    pub fn limits(mut self, limits: impl Into<Limits>) -> Self {
        self.limits = limits.into();
        self
    }

    /// Returns the limits, to change single ones.
    pub fn limits_mut(&mut self) -> &mut Limits {
        &mut self.limits
    }

    /// Sets the policy that keeps the conversation inside the model's context window. Without a
    /// policy, a request that is too large ends its run with
    /// [`ModelErrorKind::ContextOverflow`](crate::model::ModelErrorKind::ContextOverflow).
    pub fn compaction(mut self, policy: impl CompactionPolicy + 'static) -> Self {
        self.compaction = Some(Arc::new(policy));
        self
    }

    /// Requests a typed answer: JSON that deserialises into `T`.
    pub fn output<T: schemars::JsonSchema>(mut self) -> Self {
        self.output = Some(Arc::new(OutputSchema::of::<T>()));
        self
    }

    /// Requests an answer that fits a JSON Schema.
    pub fn output_schema(mut self, schema: OutputSchema) -> Self {
        self.output = Some(Arc::new(schema));
        self
    }

    /// Sets the clock and the source of randomness of sessions; the machine's by default.
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Wraps each tool added so far.
    #[cfg(feature = "testing")]
    pub(crate) fn wrap_tools(mut self, wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>) -> Self {
        self.tools = self.tools.into_iter().map(wrap).collect();
        self
    }

    // ---- hooks ----------------------------------------------------------------------------------

    /// Adds a hook, as a layer after the hooks added before.
    pub fn hook(mut self, hook: impl Hooks + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Adds a closure for [`Hooks::on_text_part`].
    pub fn on_text_part(
        self,
        hook: impl Fn(&HookContext, TextPart<'_>) -> TextAction + Send + Sync + 'static,
    ) -> Self {
        self.hook(FnHandleStepTextPart::new(hook))
    }

    /// Adds a closure for [`Hooks::before_end`].
    pub fn before_end<Fut>(
        self,
        hook: impl Fn(HookContext, Arc<Message>) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = BeforeEnd> + Send + 'static,
    {
        self.hook(FnHandleBeforeEnd::new(hook))
    }

    /// Adds a closure for [`Hooks::before_tool_call`].
    pub fn before_tool_call<Fut>(
        self,
        hook: impl Fn(HookContext, ToolCallInfo) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = BeforeToolCall> + Send + 'static,
    {
        self.hook(FnBeforeToolCall::new(hook))
    }

    /// Adds a closure for [`Hooks::around_tool_call`]. It returns a boxed future.
    pub fn around_tool_call<F>(self, hook: F) -> Self
    where
        F: Send + Sync + 'static,
        F: for<'a> Fn(&'a HookContext, &'a ToolCallInfo, Next<'a>) -> BoxFuture<'a, ToolResult>,
    {
        self.hook(FnAroundToolCall::new(hook))
    }

    /// Adds a closure for [`Hooks::transform_context`].
    pub fn transform_context<Fut>(
        self,
        hook: impl Fn(HookContext, Vec<Arc<Message>>) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Vec<Arc<Message>>> + Send + 'static,
    {
        self.hook(FnTransformContext::new(hook))
    }

    /// Adds a closure for [`Hooks::convert_to_llm`].
    pub fn convert_to_llm(
        self,
        hook: impl Fn(&HookContext, Vec<Arc<Message>>) -> Vec<Arc<Message>> + Send + Sync + 'static,
    ) -> Self {
        self.hook(FnConvertToLlm::new(hook))
    }

    /// Adds a closure for [`Hooks::offers_tool`].
    pub fn offers_tool(
        self,
        hook: impl Fn(&HookContext, &RequestInfo<'_>, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.hook(FnOffersTool::new(hook))
    }
}
