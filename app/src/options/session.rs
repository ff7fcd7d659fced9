//! Conversions between options and the settings of a session.

use std::path::PathBuf;

use loopwright_server::{CODING_LOOPS, SessionSettings};

use super::{Approve, BudgetOptions, CommandOptions, Options, RetryOptions, WorkspaceOptions};

impl Options {
    /// Returns these options as the settings of a session.
    pub(crate) fn to_session(&self) -> SessionSettings {
        let Options { workspace, budget, retries, .. } = self;
        let commands = &workspace.commands;
        let approve: Vec<String> = self.approve.iter().map(Approve::word).collect();
        let mut settings = SessionSettings::new();
        settings.agent.clone_from(&self.agent);
        settings.work_dir = workspace.root.as_ref().map(|root| root.display().to_string());
        settings.model.clone_from(&self.model);
        settings.base_url.clone_from(&self.base_url);
        settings.models.clone_from(&self.models);
        settings.max_attempts = retries.max_attempts;
        settings.max_retry_delay = retries.max_retry_delay;
        settings.thinking = self.thinking;
        settings.system.clone_from(&self.system);
        settings.no_agents_md = self.no_agents_md;
        settings.no_questions = self.no_questions;
        settings.memory = self.memory;
        settings.distil_at_end = self.distil_at_end;
        settings.pattern.clone_from(&self.pattern);
        settings.tool_choice.clone_from(&self.tool_choice);
        settings.max_turns = self.max_turns;
        settings.max_session_turns = budget.max_session_turns;
        settings.max_session_tokens = budget.max_session_tokens;
        settings.max_session_cost = budget.max_session_cost;
        settings.auto_approve = (!approve.is_empty()).then_some(approve);
        settings.guard = workspace.guard;
        settings.unprotected.clone_from(&workspace.unprotected);
        settings.network = commands.network;
        settings.unconfined = commands.unconfined;
        settings.readable.clone_from(&commands.readable);
        settings.writable.clone_from(&commands.writable);
        settings.max_memory = commands.max_memory;
        settings.max_disk = commands.max_disk;
        settings.custom.clone_from(&self.custom);
        settings
    }

    /// Returns the options that a session was stored with. Fails if the command line lacks the
    /// session's pattern.
    pub(crate) fn of_session(settings: &SessionSettings) -> Result<Self, String> {
        let settings = settings.clone();
        let is_known = |name: &&String| CODING_LOOPS.iter().any(|(known, _)| *known == **name);
        if let Some(name) = settings.pattern.as_ref().filter(|name| !is_known(name)) {
            return Err(format!("there is no pattern `{name}`"));
        }
        // A server's client may have written a directory relative to one of the server's.
        let root = settings.work_dir.map(PathBuf::from).filter(|path| path.is_absolute());
        let approve = settings.auto_approve.unwrap_or_default();
        Ok(Options {
            agent: settings.agent,
            model: settings.model,
            base_url: settings.base_url,
            models: settings.models,
            workspace: WorkspaceOptions {
                root,
                guard: settings.guard,
                unprotected: settings.unprotected,
                commands: CommandOptions {
                    network: settings.network,
                    unconfined: settings.unconfined,
                    readable: settings.readable,
                    writable: settings.writable,
                    max_memory: settings.max_memory,
                    max_disk: settings.max_disk,
                },
            },
            system: settings.system,
            no_agents_md: settings.no_agents_md,
            no_questions: settings.no_questions,
            memory: settings.memory,
            distil_at_end: settings.distil_at_end,
            thinking: settings.thinking,
            pattern: settings.pattern,
            tool_choice: settings.tool_choice,
            max_turns: settings.max_turns,
            budget: BudgetOptions {
                max_session_turns: settings.max_session_turns,
                max_session_tokens: settings.max_session_tokens,
                max_session_cost: settings.max_session_cost,
            },
            retries: RetryOptions {
                max_attempts: settings.max_attempts,
                max_retry_delay: settings.max_retry_delay,
            },
            mcp: Vec::new(), // not stored: whoever continues the session decides what runs here
            approve: approve.iter().map(|word| Approve::of(word)).collect(),
            custom: settings.custom,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_has_the_options_that_it_was_started_with() {
        let options: Options = serde_json::from_value(json!({
            "agent": "coding", "model": "custom/a", "base_url": "http://host:1/v1",
            "models": "/m.toml", "root": "/work", "guard": true, "unprotected": [".git"],
            "network": true, "unconfined": false, "readable": ["/r"], "writable": ["/w"],
            "max_memory": 1, "max_disk": 2, "system": "s", "no_agents_md": true,
            "no_questions": true, "memory": true, "distil_at_end": true, "thinking": "high",
            "pattern": "plan-first", "tool_choice": "required",
            "max_turns": 3, "max_session_turns": 4,
            "max_session_tokens": 5, "max_session_cost": 6.5, "max_attempts": 7,
            "max_retry_delay": 8, "approve": ["read-only", {"tool": "edit_file"}],
            "custom": {"region": "eu"},
        }))
        .unwrap();
        let json = serde_json::to_value(&options).unwrap();
        assert!(json.as_object().unwrap().values().all(|value| !value.is_null()), "{json}");
        assert_eq!(Options::of_session(&options.to_session()), Ok(options));
        let mut other = SessionSettings::new();
        other.pattern = Some("mine".into());
        assert!(Options::of_session(&other).unwrap_err().contains("mine"));
    }
}
