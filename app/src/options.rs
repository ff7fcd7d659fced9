//! The options of an agent, on the command line, in `loopwright.toml` and in a session's log.

mod budget;
mod choices;
mod mcp;
mod retries;
mod session;
mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use loopwright_core::model::ThinkingLevel;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::budget::{BudgetOptions, dollars, is_sum};
pub(crate) use self::choices::Approve;
pub(crate) use self::mcp::McpArg;
pub(crate) use self::retries::RetryOptions;
pub(crate) use self::workspace::{CommandOptions, WorkspaceOptions, protected_path};

/// The help text of `--models`.
pub(crate) const MODELS_HELP: &str = "A list of your own models, in TOML; by default \
                                      LOOPWRIGHT_MODELS, else loopwright/models.toml in \
                                      $XDG_CONFIG_HOME or ~/.config";

/// The options that `run` and `chat` share.
///
/// A session stores them, so continuing it needs none. Options that are given then replace the
/// stored ones.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    /// The agent, if there are several; the first one by default.
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// The model, such as openai/gpt-4o-mini or ollama/qwen3:8b; `offline` for rules that need no
    /// model.
    ///
    /// Providers: openai, anthropic, google, openrouter, groq, deepseek, mistral, xai, together,
    /// azure, ollama, llamacpp, vllm, lmstudio, each with its usual key (OPENAI_API_KEY and so on).
    /// openai-chat/NAME and openai-responses/NAME choose between OpenAI's two formats. `loopwright
    /// models` lists the known models.
    ///
    /// By default: the provider whose key is in the environment, else a server on this machine that
    /// responds (Ollama, llama.cpp, vLLM, LM Studio), else offline rules.
    #[arg(long, value_name = "PROVIDER/NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The address of your own model server, without `/chat/completions`.
    ///
    /// The server is sent Chat Completions requests, unless the model is anthropic/NAME,
    /// google/NAME or openai-responses/NAME.
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    #[arg(long, value_name = "FILE", help = MODELS_HELP)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) workspace: WorkspaceOptions,
    /// The system prompt, instead of the built-in one.
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<String>,
    /// Do not append the directory's AGENTS.md to the system prompt.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_agents_md: Option<bool>,
    /// Do not offer the model the tool ask_user, with which it asks you questions.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_questions: Option<bool>,
    /// Remember facts about you across sessions, and use them.
    ///
    /// They are in memory.db beside the default store, for all directories. /memory lists and
    /// deletes them, `/memory distil` extracts facts from the conversation.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<bool>,
    /// With --memory, distil facts from the conversation when it ends, too.
    ///
    /// At the end of `chat`, and before another session is opened, the model is sent what you and
    /// it have written since the last time. `run` does not do so.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) distil_at_end: Option<bool>,
    /// The amount of thinking before the model answers; `off` by default.
    #[arg(long, value_parser = choices::thinking())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<ThinkingLevel>,
    /// The loop of the agent; `pi` by default.
    ///
    /// With each of them, a request that begins with `/plan` is planned first: nothing is changed
    /// before you have accepted the plan.
    #[arg(long, value_parser = choices::pattern())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pattern: Option<String>,
    /// The tool that the first turn of each request must call: its name, or `required` for any.
    #[arg(long, value_name = "TOOL|required")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<String>,
    /// The maximum number of turns for a request; 50 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_turns: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) budget: BudgetOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) retries: RetryOptions,
    /// An MCP server whose tools the agent has: `NAME=COMMAND` or `NAME=URL`, or the name of a
    /// server that the project's settings propose, to accept it. May be repeated.
    ///
    /// Servers that you always want belong in your settings, as [mcp.NAME]. /mcp lists them.
    #[arg(long, value_name = "NAME[=COMMAND|URL]", value_parser = McpArg::read)]
    #[serde(skip)]
    pub(crate) mcp: Vec<McpArg>,
    /// The calls that run without approval: a tool's name, `read-only` (always included), or `all`.
    /// May be repeated.
    #[arg(long, value_name = "TOOL|read-only|all", value_parser = Approve::read)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approve: Vec<Approve>,
    /// The values of the app's own settings, by name.
    #[arg(skip)]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) custom: BTreeMap<String, Value>,
}

/// Returns these values, with `lower`'s for settings without one.
pub(crate) fn custom_over(
    values: BTreeMap<String, Value>,
    mut lower: BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    lower.extend(values);
    lower
}

impl Options {
    /// Returns only the options that a session does not store.
    pub(crate) fn not_stored(self) -> Options {
        Options { models: self.models, ..Options::default() }
    }

    /// Returns these options, with `lower`'s values for the unset ones.
    pub(crate) fn over(self, lower: Options) -> Options {
        // An address belongs to its model.
        let other_model = self.model.is_some() && self.model != lower.model;
        let base_url = if other_model { self.base_url } else { self.base_url.or(lower.base_url) };
        Options {
            agent: self.agent.or(lower.agent),
            model: self.model.or(lower.model),
            base_url,
            models: self.models.or(lower.models),
            workspace: self.workspace.over(lower.workspace),
            system: self.system.or(lower.system),
            no_agents_md: self.no_agents_md.or(lower.no_agents_md),
            no_questions: self.no_questions.or(lower.no_questions),
            memory: self.memory.or(lower.memory),
            distil_at_end: self.distil_at_end.or(lower.distil_at_end),
            thinking: self.thinking.or(lower.thinking),
            pattern: self.pattern.or(lower.pattern),
            tool_choice: self.tool_choice.or(lower.tool_choice),
            max_turns: self.max_turns.or(lower.max_turns),
            budget: self.budget.over(lower.budget),
            retries: self.retries.over(lower.retries),
            mcp: if self.mcp.is_empty() { lower.mcp } else { self.mcp },
            approve: if self.approve.is_empty() { lower.approve } else { self.approve },
            custom: custom_over(self.custom, lower.custom),
        }
    }

    /// Returns a sentence about the permissions that come only from `stored`, the options that a
    /// session was started with. Returns `None` without such permissions.
    pub(crate) fn inherited_permissions(&self, stored: &Options) -> Option<String> {
        let mut more = Vec::new();
        if self.approve.is_empty() && stored.approve.contains(&Approve::All) {
            more.push("all tools run without approval (`--approve read-only` changes that)");
        }
        if self.memory.is_none() && stored.memory == Some(true) {
            more.push("facts about you are remembered (`--memory=false`)");
        }
        if self.distil_at_end.is_none() && stored.distil_at_end == Some(true) {
            more.push("facts are distilled from it when it ends (`--distil-at-end=false`)");
        }
        let given = &self.workspace.commands;
        let stored = &stored.workspace.commands;
        if given.unconfined.is_none() && stored.unconfined == Some(true) {
            more.push("commands are unconfined (`--unconfined=false`)");
        }
        if given.network.is_none() && stored.network == Some(true) {
            more.push("commands may use the network (`--network=false`)");
        }
        (!more.is_empty()).then(|| format!("As this session was started: {}.", more.join("; ")))
    }
}
