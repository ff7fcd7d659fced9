//! [`SessionSettings`]: the settings that the agent of a session is built from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use loopwright_core::limits::Budget;
use loopwright_core::model::ThinkingLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::address::without_credentials;
use super::custom::custom_values;
use crate::error::ApiError;
use crate::json::{NOT_BLANK, count, sum};

/// The settings that clients of a server cannot choose, by their names in JSON.
const HOST_ONLY: [&str; 16] = [
    "baseUrl",
    "models",
    "maxAttempts",
    "maxRetryDelay",
    "noAgentsMd",
    "noQuestions",
    "memory",
    "distilAtEnd",
    "guard",
    "unprotected",
    "network",
    "unconfined",
    "readable",
    "writable",
    "maxMemory",
    "maxDisk",
];

/// Maximum length of the name of a session, in characters. Lists contain it.
pub(crate) const MAX_NAME_CHARS: usize = 200;
/// Maximum length of the model of a session, in characters. Lists contain it.
const MAX_MODEL_CHARS: usize = 500;

/// The settings of a session's agent: its name, its model with the address, the directory, limits
/// and permissions.
///
/// The settings are stored with the session, so it has the same agent in every front end and after
/// a restart. They never contain a key. The agent decides about values that are `None` or empty.
///
/// In JSON the names are in camel case: `workDir`, `autoApprove`. Clients of a server choose the
/// settings in the [OpenAPI document](crate::router). The others come from the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct SessionSettings {
    /// The agent, by its name; defaults to the server's first agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub name: Option<String>,
    /// The directory to work in, below one of the server's roots; defaults to the first root.
    #[serde(alias = "root", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub work_dir: Option<String>,
    /// The model, as `PROVIDER/NAME`; defaults to the server's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NOT_BLANK), length(max = MAX_MODEL_CHARS))]
    pub model: Option<String>,
    /// The address of the model's server, up to but without `/chat/completions`, if it is not the
    /// provider's. It belongs to [`model`](Self::model): requests are sent nowhere else.
    #[serde(alias = "base_url", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub base_url: Option<String>,
    /// A file that describes further models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub models: Option<PathBuf>,
    /// Maximum number of attempts of a request to the model.
    #[serde(alias = "max_attempts", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub max_attempts: Option<u32>,
    /// Maximum delay before a request to the model is retried, in seconds.
    #[serde(alias = "max_retry_delay", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub max_retry_delay: Option<u32>,
    /// The amount of thinking before the model answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingLevel>,
    /// The system prompt; defaults to the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// `true` leaves `AGENTS.md` of the directory out of the system prompt.
    #[serde(alias = "no_agents_md", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub no_agents_md: Option<bool>,
    /// `true` stops the model from asking the user questions.
    #[serde(alias = "no_questions", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub no_questions: Option<bool>,
    /// `true` makes the agent remember facts across sessions, and use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub memory: Option<bool>,
    /// `true` distils facts from the conversation when the session ends, if the agent remembers
    /// facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub distil_at_end: Option<bool>,
    /// The agent's loop, such as `pi`, if the agent lets it be chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The call that the first turn of each request must make: a tool's name, or `required` for any
    /// tool.
    #[serde(alias = "tool_choice", skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<String>,
    /// The maximum number of turns for a request.
    #[serde(alias = "max_turns", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "count")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    pub max_turns: Option<u32>,
    /// The maximum number of turns for the whole session.
    #[serde(alias = "max_session_turns", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "count")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    pub max_session_turns: Option<u32>,
    /// The maximum number of tokens for the whole session, input and output.
    #[serde(alias = "max_session_tokens", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "count")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    pub max_session_tokens: Option<u32>,
    /// The maximum cost of the whole session in US dollars. The prices of the model must be known.
    #[serde(alias = "max_session_cost", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "sum")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_session_cost: Option<f64>,
    /// The tools whose calls run without approval; `all` stands for all of them. Tools that only
    /// read never need one.
    #[serde(alias = "approve", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "approvals")]
    #[schemars(with = "Option<Vec<String>>")]
    pub auto_approve: Option<Vec<String>>,
    /// `true` refuses changes of a file that others have modified since the agent read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub guard: Option<bool>,
    /// The protected files and directories that tools and commands may change; `.` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub unprotected: Vec<String>,
    /// `true` lets commands use the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub network: Option<bool>,
    /// `true` runs commands without confinement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub unconfined: Option<bool>,
    /// Further files and directories that commands may read and run programs from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub readable: Vec<PathBuf>,
    /// Further files and directories that commands may write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub writable: Vec<PathBuf>,
    /// The maximum memory of a command, in GiB.
    #[serde(alias = "max_memory", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub max_memory: Option<u32>,
    /// Maximum decrease of a disk's free space while a command runs, in GiB.
    #[serde(alias = "max_disk", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub max_disk: Option<u32>,
    /// The values of the app's own settings, by name. A server refuses unknown ones (see
    /// [`ServerBuilder::setting`](crate::ServerBuilder::setting)).
    #[serde(deserialize_with = "custom_values", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub custom: BTreeMap<String, Value>,
}

impl SessionSettings {
    /// Creates settings that leave everything to the agent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Merges two sets of settings. Values of `self` win, unless they are `None` or empty. An
    /// address is taken only together with its model. If both have the same address, and only
    /// `lower`'s has credentials, they are kept.
    pub fn over(self, lower: SessionSettings) -> SessionSettings {
        let other_model = self.model.is_some() && self.model != lower.model;
        let base_url = match (self.base_url, lower.base_url.filter(|_| !other_model)) {
            // The address was stored without its credentials.
            (Some(own), Some(lower)) if own == without_credentials(&lower) => Some(lower),
            (own, lower) => own.or(lower),
        };
        // A session with paths has confined commands.
        let has_paths = !self.readable.is_empty() || !self.writable.is_empty();
        let unconfined = self.unconfined.or(lower.unconfined.filter(|_| !has_paths));
        let mut custom = lower.custom;
        custom.extend(self.custom);
        fn either<T>(given: Vec<T>, lower: Vec<T>) -> Vec<T> {
            if given.is_empty() { lower } else { given }
        }
        SessionSettings {
            agent: self.agent.or(lower.agent),
            name: self.name.or(lower.name),
            work_dir: self.work_dir.or(lower.work_dir),
            model: self.model.or(lower.model),
            base_url,
            models: self.models.or(lower.models),
            max_attempts: self.max_attempts.or(lower.max_attempts),
            max_retry_delay: self.max_retry_delay.or(lower.max_retry_delay),
            thinking: self.thinking.or(lower.thinking),
            system: self.system.or(lower.system),
            no_agents_md: self.no_agents_md.or(lower.no_agents_md),
            no_questions: self.no_questions.or(lower.no_questions),
            memory: self.memory.or(lower.memory),
            distil_at_end: self.distil_at_end.or(lower.distil_at_end),
            pattern: self.pattern.or(lower.pattern),
            tool_choice: self.tool_choice.or(lower.tool_choice),
            max_turns: self.max_turns.or(lower.max_turns),
            max_session_turns: self.max_session_turns.or(lower.max_session_turns),
            max_session_tokens: self.max_session_tokens.or(lower.max_session_tokens),
            max_session_cost: self.max_session_cost.or(lower.max_session_cost),
            auto_approve: self.auto_approve.or(lower.auto_approve),
            guard: self.guard.or(lower.guard),
            unprotected: either(self.unprotected, lower.unprotected),
            network: self.network.or(lower.network),
            unconfined,
            readable: either(self.readable, lower.readable),
            writable: either(self.writable, lower.writable),
            max_memory: self.max_memory.or(lower.max_memory),
            max_disk: self.max_disk.or(lower.max_disk),
            custom,
        }
    }

    /// Returns the settings in the form to store. The address has no user, no password, and no
    /// query parameters that look like credentials.
    pub fn without_credentials(mut self) -> Self {
        self.base_url = self.base_url.as_deref().map(without_credentials);
        self
    }

    /// Reads the settings that a session was stored with.
    ///
    /// A session of another program may have settings of another form, or none. Its agent is then
    /// the empty name, which no agent has, so that it can only be read. Settings of earlier
    /// versions name a directory, or a model as `PROVIDER/NAME`, and no agent. They belong to the
    /// first agent.
    pub fn from_stored(settings: Option<&Value>) -> Self {
        let read = settings.and_then(|settings| Self::deserialize(settings).ok());
        let mut settings = read.unwrap_or_default();
        let has_model = |model: &str| model.contains('/') || model == "offline";
        let is_own = settings.agent.is_some()
            || settings.work_dir.is_some()
            || settings.model.as_deref().is_some_and(has_model);
        if !is_own {
            settings.agent = Some(String::new());
        }
        settings
    }

    /// Returns whether the settings of a stored session are another program's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.agent.as_deref() == Some("")
    }

    /// Checks the lengths of a client's settings, or of its changes to the settings `old`.
    pub(crate) fn check_lengths(&self, old: &SessionSettings) -> Result<(), ApiError> {
        for (setting, new, old, max) in [
            ("name", &self.name, &old.name, MAX_NAME_CHARS),
            ("model", &self.model, &old.model, MAX_MODEL_CHARS),
        ] {
            let is_long = |text: &String| text.chars().nth(max).is_some();
            if new != old && new.as_ref().is_some_and(is_long) {
                let why = format!("It is too long: give at most {max} characters.");
                return Err(ApiError::at(format!("/{setting}"), why));
            }
        }
        Ok(())
    }

    /// Returns the budget of the whole session.
    pub fn session_budget(&self) -> Budget {
        let mut budget = Budget::default();
        budget.turns = self.max_session_turns;
        budget.tokens = self.max_session_tokens.map(u64::from);
        budget.cost = self.max_session_cost;
        budget
    }

    /// Returns the JSON name of a setting that is set and that clients cannot choose, if there is
    /// one.
    pub(crate) fn of_host(&self) -> Option<&'static str> {
        let set = serde_json::to_value(self).unwrap_or_default();
        HOST_ONLY.into_iter().find(|name| set.get(name).is_some())
    }
}

/// Deserialises the names of tools. Earlier versions of the command line stored `{"tool": NAME}`.
fn approvals<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "the name of a tool, or `all`")]
    enum Name {
        Word(String),
        Tool { tool: String },
    }
    let names = Option::<Vec<Name>>::deserialize(from)?;
    let name = |name| match name {
        Name::Word(name) | Name::Tool { tool: name } => name,
    };
    Ok(names.map(|names| names.into_iter().map(name).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_belongs_to_its_model() {
        let settings = |model: Option<&str>, base_url: Option<&str>| SessionSettings {
            model: model.map(Into::into),
            base_url: base_url.map(Into::into),
            ..SessionSettings::default()
        };
        let server = settings(Some("custom/a"), Some("http://host:1/v1"));
        let over = |given: SessionSettings| given.over(server.clone()).base_url;
        assert_eq!(over(settings(None, None)), server.base_url);
        assert_eq!(over(settings(Some("custom/a"), None)), server.base_url);
        assert_eq!(over(settings(Some("openai/b"), None)), None);
        let own = over(settings(Some("custom/a"), Some("http://own:2/v1")));
        assert_eq!(own.as_deref(), Some("http://own:2/v1"));
        let secret = settings(Some("custom/a"), Some("http://me:secret@host:1/v1"));
        assert_eq!(server.clone().over(secret.clone()).base_url, secret.base_url);
    }

    #[test]
    fn settings_of_the_host_are_recognised() {
        let read = |json| SessionSettings::deserialize::<Value>(json).unwrap();
        let own = json!({"agent": "a", "model": "m", "thinking": "high", "autoApprove": ["all"]});
        assert_eq!(read(own).of_host(), None);
        assert_eq!(read(json!({"network": false})).of_host(), Some("network"));
        assert_eq!(read(json!({"writable": ["/"]})).of_host(), Some("writable"));
    }

    /// Each name is a JSON name of a setting, and each setting without a schema is listed.
    #[test]
    fn the_settings_without_a_schema_are_those_of_the_host() {
        let mut all = SessionSettings::from_stored(Some(&json!({
            "agent": "a", "name": "n", "workDir": "d", "model": "m", "baseUrl": "u", "models": "f",
            "maxAttempts": 1, "maxRetryDelay": 1, "thinking": "low", "system": "s",
            "noAgentsMd": true, "noQuestions": true, "memory": true, "distilAtEnd": true,
            "toolChoice": "t", "maxTurns": 1, "maxSessionTurns": 1,
            "maxSessionTokens": 1,
            "maxSessionCost": 1.0, "autoApprove": [], "guard": true, "unprotected": ["."],
            "network": true, "unconfined": true, "readable": ["r"], "writable": ["w"],
            "maxMemory": 1, "maxDisk": 1, "custom": { "region": "eu" },
        })));
        let schema = schemars::schema_for!(SessionSettings).to_value();
        let json = serde_json::to_value(&all).unwrap();
        for name in json.as_object().unwrap().keys() {
            let is_public = schema["properties"].get(name).is_some();
            assert_eq!(is_public, !HOST_ONLY.contains(&name.as_str()), "{name}");
        }
        all.agent = None;
        assert_eq!(all.clone().over(SessionSettings::default()), all);
        assert_eq!(SessionSettings::default().over(all.clone()), all);
    }

    #[test]
    fn what_earlier_versions_of_the_command_line_stored_is_read() {
        let stored = json!({
            "root": "/work", "base_url": "http://host:1/v1", "max_turns": 3, "tool_choice": "x",
            "approve": ["read-only", {"tool": "edit_file"}], "max_memory": 2,
        });
        let settings = SessionSettings::from_stored(Some(&stored));
        let expected = SessionSettings {
            work_dir: Some("/work".into()),
            base_url: Some("http://host:1/v1".into()),
            max_turns: Some(3),
            tool_choice: Some("x".into()),
            auto_approve: Some(vec!["read-only".into(), "edit_file".into()]),
            max_memory: Some(2),
            ..SessionSettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn settings_of_other_programs_are_foreign() {
        let is_foreign =
            |stored: Option<Value>| SessionSettings::from_stored(stored.as_ref()).is_foreign();
        assert!(is_foreign(None));
        for stored in [json!({}), json!("x"), json!({ "model": "small" }), json!({ "workDir": 1 })]
        {
            assert!(is_foreign(Some(stored.clone())), "{stored}");
        }
        for stored in [
            json!({ "agent": "a" }),
            json!({ "root": "/w" }),
            json!({ "model": "openai/small" }),
            json!({ "model": "offline" }),
        ] {
            assert!(!is_foreign(Some(stored.clone())), "{stored}");
        }
    }
}
