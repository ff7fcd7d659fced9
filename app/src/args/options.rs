//! What an agent is made of, on the command line and in a session's log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use loopwright_core::model::ThinkingLevel;
use loopwright_providers::Provider;
use loopwright_tools::{Commands, Workspace, WorkspaceError};
use serde::{Deserialize, Serialize};

use crate::config::Config;

pub(crate) const MODELS: &str = "A list of your own models, in TOML; else LOOPWRIGHT_MODELS, else loopwright/models.toml in \
                      $XDG_CONFIG_HOME or ~/.config";

/// What `run` and `chat` have in common.
///
/// A session keeps them, so that going on with it needs none; where some are given again, these
/// count from then on.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    /// The model, such as openai/gpt-4o-mini or ollama/qwen3:8b; `offline` for rules that need no
    /// model.
    ///
    /// Providers: openai, anthropic, google, openrouter, groq, deepseek, mistral, xai, together,
    /// azure, ollama, llamacpp, vllm, lmstudio, each with its usual key (OPENAI_API_KEY and so on).
    /// openai-chat/NAME and openai-responses/NAME choose between OpenAI's two formats. `loopwright
    /// models` lists models that are known.
    ///
    /// Without it: the provider whose key is in the environment, else a server on this machine that
    /// answers (Ollama, llama.cpp, vLLM, LM Studio), else offline rules.
    #[arg(long, value_name = "PROVIDER/NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The address of a server of your own, up to but without `/chat/completions`.
    ///
    /// It speaks Chat Completions, unless the model is anthropic/NAME, google/NAME or
    /// openai-responses/NAME.
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    #[arg(long, value_name = "FILE", help = MODELS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) place: Place,
    /// The system prompt, instead of the built-in one.
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<String>,
    /// Leave out what AGENTS.md in the directory says to agents; otherwise it is the end of the
    /// system prompt.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_agents_md: Option<bool>,
    /// How much the model thinks before it answers; off if not given.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<Thinking>,
    /// The loop: `pi` hears you while it works and takes follow-ups, `generic` is one plain loop.
    ///
    /// `pi` if not given.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pattern: Option<Pattern>,
    /// What the first turn of each request must call: a tool's name, or `required` for any.
    #[arg(long, value_name = "TOOL|required")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<String>,
    /// The most turns a request may take; 50 if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_turns: Option<u32>,
    /// What runs without confirmation: a tool's name, `read-only` (always included), or `all`. May
    /// be repeated.
    #[arg(long, value_name = "TOOL|read-only|all", value_parser = Approve::read)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approve: Vec<Approve>,
    /// Where what is not said here may be said.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) config: Arc<Config>,
    /// What was given or kept, without what is configured: that is what a session keeps.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) given: Option<Box<Options>>,
    /// Nothing is told that the user need not know.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) quiet: bool,
}

impl Options {
    /// With what `saved` says where this says nothing.
    pub(crate) fn over(self, saved: Options) -> Options {
        // Another model has another address.
        let other = self.model.is_some() && self.model != saved.model;
        let base_url = if other { self.base_url } else { self.base_url.or(saved.base_url) };
        Options {
            model: self.model.or(saved.model),
            base_url,
            models: self.models.or(saved.models),
            place: self.place.over(saved.place),
            system: self.system.or(saved.system),
            no_agents_md: self.no_agents_md.or(saved.no_agents_md),
            thinking: self.thinking.or(saved.thinking),
            pattern: self.pattern.or(saved.pattern),
            tool_choice: self.tool_choice.or(saved.tool_choice),
            max_turns: self.max_turns.or(saved.max_turns),
            approve: or(self.approve, saved.approve),
            config: self.config,
            given: self.given,
            quiet: self.quiet,
        }
    }

    /// What of `kept` lets the agent do more than it could by itself, where it was not given now; a
    /// sentence.
    pub(crate) fn kept_freedoms(&self, kept: &Options) -> Option<String> {
        let mut more = Vec::new();
        if self.approve.is_empty() && kept.approve.contains(&Approve::All) {
            more.push("all tools run unasked (`--approve read-only` changes that)");
        }
        if self.place.commands.unconfined.is_none() && kept.place.commands.unconfined == Some(true)
        {
            more.push("commands are unconfined (`--unconfined=false`)");
        }
        if self.place.commands.network.is_none() && kept.place.commands.network == Some(true) {
            more.push("commands may use the network (`--network=false`)");
        }
        (!more.is_empty()).then(|| format!("As this session was started: {}.", more.join("; ")))
    }

    /// As a session keeps them: with this model and directory, paths that hold anywhere, and no
    /// key. What is configured is not kept, but for the model and its address.
    pub(crate) fn to_keep(&self, model: &str, root: &Path) -> Options {
        let base_url = self
            .base_url
            .clone()
            .or_else(|| address_in_environment(model))
            .as_deref()
            .map(without_key);
        let given = self.given.as_deref().unwrap_or(self);
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let all = |paths: &[PathBuf]| paths.iter().map(absolute).collect();
        let commands = &given.place.commands;
        let (readable, writable) = (all(&commands.readable), all(&commands.writable));
        let commands = CommandOptions { readable, writable, ..commands.clone() };
        Options {
            model: Some(model.to_owned()),
            base_url,
            models: given.models.as_ref().map(absolute),
            place: Place { root: Some(root.to_owned()), commands, ..given.place.clone() },
            ..given.clone()
        }
    }
}

/// An address without a user, a password, or parts of a query that look like a key.
pub(crate) fn without_key(url: &str) -> String {
    let secret = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().to_lowercase();
        ["key", "token", "secret", "auth", "password", "sig"].iter().any(|word| name.contains(word))
    };
    let url = url.split('#').next().unwrap_or_default();
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) =
        url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme), rest));
    let host = rest.find('/').unwrap_or(rest.len());
    let from = rest[..host].rfind('@').map_or(0, |at| at + 1);
    let kept: Vec<&str> =
        query.split('&').filter(|part| !part.is_empty() && !secret(part)).collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}{}{query}", &rest[from..])
}

/// The address that the environment gives the model's provider, if it gives one.
fn address_in_environment(model: &str) -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let first = model.split('/').next().unwrap_or_default();
    let provider = Provider::named(if first.starts_with("openai-") { "openai" } else { first })?;
    set(provider.base_url_var?)?;
    provider.address(set)
}

fn or<T>(given: Vec<T>, saved: Vec<T>) -> Vec<T> {
    if given.is_empty() { saved } else { given }
}

/// What runs without confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Approve {
    ReadOnly,
    All,
    Tool(String),
}

impl Approve {
    /// What this word lets run.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "read-only" => Approve::ReadOnly,
            "all" => Approve::All,
            tool => Approve::Tool(tool.to_owned()),
        }
    }

    fn read(word: &str) -> Result<Self, std::convert::Infallible> {
        Ok(Self::of(word))
    }
}

/// The loops to choose from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    Generic,
    #[default]
    Pi,
}

/// [`ThinkingLevel`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    #[value(name = "xhigh")]
    XHigh,
}

impl From<ThinkingLevel> for Thinking {
    fn from(level: ThinkingLevel) -> Self {
        match level {
            ThinkingLevel::Off => Thinking::Off,
            ThinkingLevel::Minimal => Thinking::Minimal,
            ThinkingLevel::Low => Thinking::Low,
            ThinkingLevel::Medium => Thinking::Medium,
            ThinkingLevel::High => Thinking::High,
            ThinkingLevel::XHigh => Thinking::XHigh,
        }
    }
}

impl From<Thinking> for ThinkingLevel {
    fn from(level: Thinking) -> Self {
        match level {
            Thinking::Off => ThinkingLevel::Off,
            Thinking::Minimal => ThinkingLevel::Minimal,
            Thinking::Low => ThinkingLevel::Low,
            Thinking::Medium => ThinkingLevel::Medium,
            Thinking::High => ThinkingLevel::High,
            Thinking::XHigh => ThinkingLevel::XHigh,
        }
    }
}

/// Where tools work, and what commands may do there.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    /// The directory to work in; tools cannot leave it.
    ///
    /// The present one if not given.
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<PathBuf>,
    /// Leave a file alone that somebody else changed after it was read, until it is read again.
    ///
    /// What was read is remembered for one session, so `tools call`, which is one call, has no use
    /// for it. Commands are not held by it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<bool>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) commands: CommandOptions,
}

/// What commands may do.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CommandOptions {
    /// Let commands use the network; otherwise they have none, not even of this machine.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<bool>,
    /// Run commands without confinement: they can do all that you can.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(conflicts_with_all = ["readable", "writable"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    unconfined: Option<bool>,
    /// One more file or directory that commands may read and run programs from. May be repeated.
    #[arg(long, value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readable: Vec<PathBuf>,
    /// One more file or directory that commands may write. May be repeated.
    #[arg(long, value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    writable: Vec<PathBuf>,
}

impl Place {
    /// The workspace that tools work in.
    pub(crate) fn workspace(&self) -> Result<Workspace, WorkspaceError> {
        let workspace = Workspace::open(self.root.as_deref().unwrap_or(Path::new(".")))?;
        Ok(if self.guard.unwrap_or_default() { workspace.guarded() } else { workspace })
    }

    /// The directory, as it was given.
    pub(crate) fn root_or_here(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(|| PathBuf::from("."))
    }

    /// How commands are run.
    pub(crate) fn commands(&self) -> Commands {
        self.commands.commands()
    }

    /// With what `saved` says where this says nothing.
    pub(crate) fn over(self, saved: Place) -> Place {
        Place {
            root: self.root.or(saved.root),
            guard: self.guard.or(saved.guard),
            commands: self.commands.over(saved.commands),
        }
    }
}

impl CommandOptions {
    /// How commands are run.
    pub(crate) fn commands(&self) -> Commands {
        let mut commands = Commands::new();
        if self.network.unwrap_or_default() {
            commands = commands.network();
        }
        if self.unconfined.unwrap_or_default() {
            commands = commands.unconfined();
        }
        let commands = self.readable.iter().fold(commands, Commands::readable);
        self.writable.iter().fold(commands, Commands::writable)
    }

    /// With what `saved` says where this says nothing.
    pub(crate) fn over(self, saved: CommandOptions) -> CommandOptions {
        let paths = !self.readable.is_empty() || !self.writable.is_empty(); // which make sense to the confined only
        CommandOptions {
            network: self.network.or(saved.network),
            unconfined: if paths { self.unconfined } else { self.unconfined.or(saved.unconfined) },
            readable: or(self.readable, saved.readable),
            writable: or(self.writable, saved.writable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_counts_more_than_what_was_kept() {
        let kept = Options {
            model: Some("custom/a".into()),
            base_url: Some("http://user:key@host:1/v1?api-key=secret&version=2".into()),
            approve: vec![Approve::ReadOnly, Approve::Tool("diff".into())],
            max_turns: Some(3),
            ..Options::default()
        };
        let kept = kept.to_keep("custom/a", Path::new("somewhere"));
        let json = serde_json::to_value(&kept).unwrap();
        assert!(!json.to_string().contains("key"), "{json}");
        let read: Options = serde_json::from_value(json).unwrap();
        assert_eq!(
            (&read.base_url, &read.approve),
            (&Some("http://host:1/v1?version=2".into()), &kept.approve)
        );
        let given = Options { max_turns: Some(7), ..Options::default() }.over(read.clone());
        assert_eq!((given.max_turns, &given.base_url), (Some(7), &read.base_url));
        let other = Options { model: Some("openai/b".into()), ..Options::default() }.over(read);
        assert_eq!(
            (other.base_url, other.place.root.as_deref()),
            (None, Some(Path::new("somewhere")))
        );
    }
}
