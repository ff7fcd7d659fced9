//! [`SessionSettings`]: the settings that the agent of a session is built from.
//!
//! A setting is declared once, below. Its line yields the field, the property of HTTP requests, the
//! flag, the key in settings files, the environment variable, and the rule for merging. Its
//! documentation is its help text.

use std::collections::BTreeMap;
use std::path::PathBuf;

use loopwright_core::limits::Budget;
use loopwright_core::model::ThinkingLevel;
use loopwright_protocols::NOT_BLANK;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::without_credentials;
use super::custom::custom_values;
use super::setting::{Merge, Setting, SettingPlace, SettingScope, SettingType};
use super::values::{approvals, count, sum};
use crate::rejection::AgentRejection;

/// Maximum length of the model of a session, in characters. Lists contain it.
const MAX_MODEL_CHARS: usize = 500;

/// The names of the levels of thinking.
const LEVELS: [(&str, &str); ThinkingLevel::ALL.len()] = {
    let mut levels = [("", ""); ThinkingLevel::ALL.len()];
    let mut next = 0;
    while next < levels.len() {
        levels[next].0 = ThinkingLevel::ALL[next].name();
        next += 1;
    }
    levels
};

/// The loops of a coding agent.
pub(crate) const PATTERNS: &[(&str, &str)] = &[
    ("generic", "One plain loop: messages are delivered before the next model request"),
    ("pi", "Two loops: steers are delivered before the next model request, follow-ups at the end"),
    (
        "plan-first",
        "Every request begins with a plan; nothing is changed before you have accepted it",
    ),
    ("plan-execute", "A plan, its first step, a new plan, until the request is done"),
    ("reflect", "The model judges its answer, and improves it up to two times"),
    ("self-consistency", "Five answers at once, without tools; the most frequent one wins"),
    ("clarify", "The model asks back while a request is unclear, up to three times"),
    ("react", "Tools for models that cannot call any: actions in the text"),
];

const BUDGET_RISK: &str = "how much a session may use";
const MODEL_RISK: &str = "which server receives the conversation, and which key";

const fn text(placeholder: &'static str) -> Setting {
    Setting::new(SettingType::Text, placeholder)
}

const fn switch() -> Setting {
    Setting::new(SettingType::Switch, "BOOL")
}

const fn number(placeholder: &'static str) -> Setting {
    Setting::new(SettingType::Count, placeholder)
}

/// Declares the settings of sessions: the documentation, the field, and the form elsewhere.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])*
        $(#[serde($($serde:tt)*)])*
        $(#[schemars($($schemars:tt)*)])*
        $field:ident: $type:ty = $setting:expr;
    )*) => {
        /// The settings of a session's agent: its name, its model with the address, the directory,
        /// limits and permissions.
        ///
        /// The settings are stored with the session, so it has the same agent in every front end
        /// and after a restart. They never contain a key. The agent decides about values that are
        /// `None` or empty.
        ///
        /// In JSON the names are in camel case: `workDir`, `maxTurns`. Clients of a server
        /// choose the settings in the OpenAPI document. The others come from the
        /// host.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", default)]
        #[schemars(transform = without_settings_of_host)]
        #[non_exhaustive]
        pub struct SessionSettings {
            $(
                $(#[doc = $doc])*
                #[serde(skip_serializing_if = "Merge::is_unset")]
                $(#[serde($($serde)*)])*
                $(#[schemars($($schemars)*)])*
                pub $field: $type,
            )*
        }

        impl SessionSettings {
            /// The declarations of all settings, in the order of help texts.
            pub const ALL: &'static [Setting] = &[$(
                $setting.of_field(stringify!($field), concat!($($doc, "\n"),*))
            ),*];

            fn merge(self, lower: Self) -> Self {
                SessionSettings { $($field: self.$field.over(lower.$field)),* }
            }
        }
    };
}

settings! {
    /// The agent, if there are several.
    agent: Option<String> = text("NAME")
        .default("the first one by default")
        .risk("which agent works, with which tools");

    /// A name for people.
    #[schemars(length(max = SessionSettings::MAX_NAME_CHARS))]
    name: Option<String> = text("NAME").changeable().place(SettingPlace::Http);

    /// The directory to work in, which tools cannot leave.
    ///
    /// On a server it is below one of the server's roots, by default the first one.
    #[serde(alias = "root")]
    #[schemars(length(min = 1))]
    work_dir: Option<String> = Setting::new(SettingType::Path, "DIR")
        .key_is("root")
        .default("the current one by default")
        .place(SettingPlace::CommandLine);

    /// The model, such as openai/gpt-4o-mini or ollama/qwen3:8b; `offline` for rules that need no
    /// model.
    ///
    /// Providers: openai, anthropic, google, openrouter, groq, deepseek, mistral, xai, together,
    /// azure, ollama, llamacpp, vllm, lmstudio, each with its usual key (OPENAI_API_KEY and so on).
    /// openai-chat/NAME and openai-responses/NAME choose between OpenAI's two formats. `loopwright
    /// models` lists the known models.
    ///
    /// Without it, `run`, `chat` and a `serve` that only its operator can reach use the provider
    /// whose key is in the environment, else a server on this machine that responds (Ollama,
    /// llama.cpp, vLLM, LM Studio), else offline rules. A session of a server uses the server's
    /// model. Requests to /api/agent-chat bring their own model and key.
    #[schemars(regex(pattern = NOT_BLANK), length(max = MAX_MODEL_CHARS))]
    model: Option<String> = text("PROVIDER/NAME").changeable().risk(MODEL_RISK);

    /// The address of your own model server, without `/chat/completions`.
    ///
    /// The server is sent Chat Completions requests, unless the model is anthropic/NAME,
    /// google/NAME or openai-responses/NAME. The address belongs to the model: requests are sent
    /// nowhere else.
    #[serde(alias = "base_url")]
    base_url: Option<String> = text("URL").host_only().risk(MODEL_RISK);

    /// A list of your own models, in TOML.
    models: Option<PathBuf> = Setting::new(SettingType::Path, "FILE")
        .default(
            "by default LOOPWRIGHT_MODELS, else loopwright/models.toml in $XDG_CONFIG_HOME or \
             ~/.config",
        )
        .host_only()
        .risk("where models are described");

    /// The system prompt, instead of the agent's own.
    system: Option<String> = text("TEXT");

    /// Do not append the directory's AGENTS.md to the system prompt.
    #[serde(alias = "no_agents_md")]
    no_agents_md: Option<bool> = switch().host_only().scope(SettingScope::Coding);

    /// Do not offer the model the tool ask_user, with which it asks the user questions.
    #[serde(alias = "no_questions")]
    no_questions: Option<bool> = switch().host_only().scope(SettingScope::Coding);

    /// Remember facts about the user across sessions, and use them.
    ///
    /// They are in memory.db beside the default store, for all directories. /memory lists and
    /// deletes them, `/memory distil` extracts facts from the conversation. A server remembers
    /// facts about each user. Its operator, who is everyone if it has no other users, shares the
    /// facts of `chat --memory`.
    memory: Option<bool> =
        switch().host_only().scope(SettingScope::Coding).risk("whether facts about you are stored");

    /// With --memory, distil facts from the conversation when it ends, too.
    ///
    /// A conversation ends with `chat`, before another session is opened, and when a server closes
    /// the session, because nobody uses it or because the server stops. The model is then sent what
    /// the user and it have written since the last time. `run` does not do so.
    distil_at_end: Option<bool> = switch()
        .host_only()
        .scope(SettingScope::Coding)
        .risk("whether conversations are searched for facts about you");

    /// The amount of thinking before the model answers.
    thinking: Option<ThinkingLevel> = Setting::new(SettingType::Words(&LEVELS), "THINKING")
        .default("`off` by default")
        .changeable();

    /// The loop of the agent.
    ///
    /// With each of them, a request that begins with `/plan` is planned first: nothing is changed
    /// before you have accepted the plan.
    pattern: Option<String> = Setting::new(SettingType::Words(PATTERNS), "PATTERN")
        .default("`pi` by default")
        .scope(SettingScope::Coding);

    /// The tool that the first turn of each request must call: its name, or `required` for any.
    #[serde(alias = "tool_choice")]
    tool_choice: Option<String> = text("TOOL|required").scope(SettingScope::Coding);

    /// Work until this shell command succeeds, such as `cargo test`.
    ///
    /// It runs after each answer, confined like the agent's commands, and needs no approval. If it
    /// fails, the model sees its output and continues, up to ten times within the other limits.
    /// `run` ends with exit code 7 if it does not succeed. For a stored session, an empty text ends
    /// this.
    until: Option<String> = text("COMMAND")
        .host_only()
        .scope(SettingScope::Coding)
        .place(SettingPlace::CommandLine);

    /// The maximum number of turns for a request.
    #[serde(alias = "max_turns", deserialize_with = "count")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    max_turns: Option<u32> = number("N").default("50 by default").changeable();

    /// Answer at a limit of turns, tokens, cost or time.
    ///
    /// The budget keeps room for a last request, which may call no tool and asks the model what is
    /// done and what is left. `false` ends the run without an answer.
    wrap_up: Option<bool> =
        switch().default("`true` by default").changeable().scope(SettingScope::Coding);

    /// Stop a run that makes the same calls with the same results again and again.
    ///
    /// After the third time the model gets a note, after the fifth the run ends as at a limit.
    /// Waiting is allowed: a call that takes a second or more restarts the count. `false`
    /// switches this off.
    loop_guard: Option<bool> =
        switch().default("`true` by default").changeable().scope(SettingScope::Coding);

    /// Let the model keep a todo list, which you see while it works.
    ///
    /// The model writes it with the tool write_todos, for work of several steps. `false` leaves the
    /// tool out.
    todos: Option<bool> =
        switch().default("`true` by default").changeable().scope(SettingScope::Coding);

    /// The maximum number of turns for the whole session.
    #[serde(alias = "max_session_turns", deserialize_with = "count")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    max_session_turns: Option<u32> =
        number("N").default("unlimited by default").changeable().risk(BUDGET_RISK);

    /// The maximum number of tokens for the whole session, input and output.
    #[serde(alias = "max_session_tokens", deserialize_with = "count")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    max_session_tokens: Option<u32> =
        number("N").default("unlimited by default").changeable().risk(BUDGET_RISK);

    /// The maximum cost of the whole session in US dollars.
    ///
    /// With it, a model whose prices are not known is refused.
    #[serde(alias = "max_session_cost", deserialize_with = "sum")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_session_cost: Option<f64> = Setting::new(SettingType::Sum, "DOLLARS")
        .default("unlimited by default")
        .changeable()
        .risk(BUDGET_RISK);

    /// The maximum number of attempts for a request that fails in a way that may pass.
    #[serde(alias = "max_attempts")]
    max_attempts: Option<u32> = number("N")
        .default("10 by default")
        .host_only()
        .risk("how often failed requests are sent again");

    /// The longest wait before a request is sent again, in seconds.
    ///
    /// If the server asks to wait longer, the request fails at once.
    #[serde(alias = "max_retry_delay")]
    max_retry_delay: Option<u32> = number("SECONDS")
        .default("60 by default")
        .host_only()
        .risk("how late failed requests are sent again");

    /// The longest time until a server of models is connected, in seconds.
    #[serde(alias = "connect_timeout", deserialize_with = "count")]
    connect_timeout: Option<u32> = number("SECONDS")
        .default("10 by default")
        .host_only()
        .risk("how long requests wait");

    /// The longest time until a server of models sends the first data of a reply, in seconds.
    #[serde(alias = "first_event_timeout", deserialize_with = "count")]
    first_event_timeout: Option<u32> = number("SECONDS")
        .default("300 by default")
        .host_only()
        .risk("how long requests wait");

    /// The longest time without any data during a reply, in seconds.
    #[serde(alias = "idle_timeout", deserialize_with = "count")]
    idle_timeout: Option<u32> = number("SECONDS")
        .default("300 by default")
        .host_only()
        .risk("how long requests wait");

    /// The longest time with nothing but pings during a reply, in seconds.
    #[serde(alias = "silence_timeout", deserialize_with = "count")]
    silence_timeout: Option<u32> = number("SECONDS")
        .default("1800 by default")
        .host_only()
        .risk("how long requests wait");

    /// The calls that run without approval: a tool's name, `read-only` (always included), or `all`.
    #[serde(alias = "autoApprove", deserialize_with = "approvals")]
    #[schemars(with = "Option<Vec<String>>")]
    approve: Option<Vec<String>> = Setting::new(SettingType::Tools, "TOOL|read-only|all")
        .changeable()
        .risk("what runs on your machine without approval");

    /// Refuse to change a file that others changed since the agent read it.
    ///
    /// The agent must read the file again first. `false` switches this off. Each session has its
    /// own record of reads, so the option has no effect on `tools call`, which is a single call. It
    /// does not apply to commands.
    guard: Option<bool> =
        switch().default("`true` by default").host_only().scope(SettingScope::Tools);

    /// Let commands use the network. By default they have no network, not even localhost.
    network: Option<bool> =
        switch().host_only().scope(SettingScope::Tools).risk("whether commands reach the network");

    /// Run commands without confinement: they can do everything that you can.
    unconfined: Option<bool> =
        switch().host_only().scope(SettingScope::Tools).risk("whether commands are confined");

    /// Another file or directory that commands may read and run programs from.
    readable: Vec<PathBuf> = Setting::new(SettingType::Paths, "PATH")
        .host_only()
        .scope(SettingScope::Tools)
        .risk("what commands can read");

    /// Another file or directory that commands may write.
    writable: Vec<PathBuf> = Setting::new(SettingType::Paths, "PATH")
        .host_only()
        .scope(SettingScope::Tools)
        .risk("what commands can write");

    /// A protected file or directory that tools and commands may change; `.` for all.
    ///
    /// Your own tools run or obey protected files without asking you, such as `.git/hooks` and
    /// `.envrc`. Commands cannot change them, and file tools ask you whatever is approved. The path
    /// is relative to the directory to work in.
    unprotected: Vec<String> = Setting::new(SettingType::ProtectedPaths, "PATH")
        .host_only()
        .scope(SettingScope::Tools)
        .risk("which files that your own tools run can be changed");

    /// The memory that a command may use, in GiB.
    #[serde(alias = "max_memory")]
    max_memory: Option<u32> = number("GIB")
        .default("three quarters of this machine's by default")
        .host_only()
        .scope(SettingScope::Tools)
        .risk("how much memory commands use");

    /// The amount by which the free space of a disk may shrink while a command runs, in GiB.
    #[serde(alias = "max_disk")]
    max_disk: Option<u32> = number("GIB")
        .default("32 by default")
        .host_only()
        .scope(SettingScope::Tools)
        .risk("how much disk commands use");

    /// The values of the app's own settings, by name. A server refuses unknown ones (see
    /// `ServerBuilder::setting`).
    #[serde(deserialize_with = "custom_values")]
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    custom: BTreeMap<String, Value> =
        Setting::new(SettingType::Custom, "").changeable().place(SettingPlace::Http);
}

impl SessionSettings {
    /// Maximum length of the name of a session, in characters. Lists contain it.
    pub const MAX_NAME_CHARS: usize = 200;

    /// Creates settings that leave everything to the agent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Merges two sets of settings. Values of `self` win, unless they are `None` or empty. An
    /// address is taken only together with its model. If both have the same address, and only
    /// `lower`'s has credentials, they are kept.
    pub fn over(mut self, mut lower: SessionSettings) -> SessionSettings {
        if self.model.is_some() && self.model != lower.model {
            lower.base_url = None;
        }
        // The address was stored without its credentials.
        if self.base_url == lower.base_url.as_deref().map(without_credentials) {
            self.base_url = None;
        }
        // Paths imply confined commands.
        if !self.readable.is_empty() || !self.writable.is_empty() {
            lower.unconfined = None;
        }
        self.merge(lower)
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
    ///
    /// # Errors
    /// Rejects the first text that is new and too long.
    pub fn check_lengths(&self, old: &SessionSettings) -> Result<(), AgentRejection> {
        for (setting, new, old, max) in [
            ("name", &self.name, &old.name, Self::MAX_NAME_CHARS),
            ("model", &self.model, &old.model, MAX_MODEL_CHARS),
        ] {
            let is_long = |text: &String| text.chars().nth(max).is_some();
            if new != old && new.as_ref().is_some_and(is_long) {
                let why = format!("It is too long: give at most {max} characters.");
                return Err(AgentRejection::bad_request(format!("/{setting}"), why));
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
    pub fn first_host_only(&self) -> Option<String> {
        self.first_set(|setting, _| setting.is_host_only)
    }

    /// Returns the JSON name of the first setting that is set and fulfils the condition.
    pub(crate) fn first_set(&self, is: impl Fn(&Setting, &Value) -> bool) -> Option<String> {
        let set = serde_json::to_value(self).unwrap_or_default();
        let is_set = |setting: &Setting| {
            let name = setting.json_name();
            set.get(&name).is_some_and(|value| is(setting, value)).then_some(name)
        };
        Self::ALL.iter().find_map(is_set)
    }
}

/// Removes the settings that clients cannot choose from the schema.
fn without_settings_of_host(schema: &mut Schema) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for setting in SessionSettings::ALL.iter().filter(|setting| setting.is_host_only) {
            properties.remove(&setting.json_name());
        }
    }
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
        let own = json!({"agent": "a", "model": "m", "thinking": "high", "approve": ["all"]});
        assert_eq!(read(own).first_host_only(), None);
        assert_eq!(read(json!({"network": false})).first_host_only().as_deref(), Some("network"));
        assert_eq!(read(json!({"writable": ["/"]})).first_host_only().as_deref(), Some("writable"));
    }

    #[test]
    fn each_setting_has_its_form_in_json_and_is_merged() {
        let value = |setting: &Setting| match setting.kind {
            SettingType::Text | SettingType::Path => json!("x"),
            SettingType::Words(words) => json!(words[0].0),
            SettingType::Switch => json!(true),
            SettingType::Count => json!(1),
            SettingType::Sum => json!(1.5),
            SettingType::Tools | SettingType::Paths | SettingType::ProtectedPaths => json!(["x"]),
            SettingType::Custom => json!({ "region": "eu" }),
        };
        let all = SessionSettings::ALL.iter().map(|setting| (setting.json_name(), value(setting)));
        let json = Value::Object(all.collect());
        let all = SessionSettings::deserialize(&json).unwrap();
        assert_eq!(serde_json::to_value(&all).unwrap(), json);
        let schema = schemars::schema_for!(SessionSettings).to_value();
        for setting in SessionSettings::ALL {
            let name = setting.json_name();
            assert_ne!(schema["properties"].get(&name).is_some(), setting.is_host_only, "{name}");
        }
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
            approve: Some(vec!["read-only".into(), "edit_file".into()]),
            max_memory: Some(2),
            ..SessionSettings::default()
        };
        assert_eq!(settings, expected);
        // Ignoring the list would approve what the server or the user's file approves.
        let older = SessionSettings::from_stored(Some(&json!({ "autoApprove": [] })));
        assert_eq!(older.approve, Some(vec![]));
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

    #[test]
    fn limits_are_greater_than_nothing() {
        let json = |text| serde_json::Deserializer::from_str(text);
        assert_eq!(count(&mut json("1.0")).unwrap(), Some(1));
        assert_eq!(sum(&mut json("0.25")).unwrap(), Some(0.25));
        assert!(count(&mut json("0")).is_err());
        assert!(sum(&mut json("0")).is_err() && sum(&mut json("-1")).is_err());
    }
}
