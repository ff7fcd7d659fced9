//! The part of the settings that applies to any agent: limits and approvals.

use std::sync::Arc;

use loopwright_core::AgentBuilder;
use loopwright_core::hooks::BeforeToolCall;
use loopwright_core::tool::{Approval, Effect};

use super::setup::AgentSetup;
use crate::rejection::AgentRejection;
use crate::settings::{Setting, SettingScope};

impl AgentSetup {
    /// Applies the settings to an agent: thinking, limits, and which calls run without approval.
    ///
    /// While a request to `/api/agent-chat` streams, nobody can approve a call, so calls run
    /// without asking. These are denied:
    ///
    /// - calls that need an approval whatever the settings allow,
    /// - calls that change something and are missing from the request's list, if it has a list,
    /// - calls that the operator does not let run without approval.
    ///
    /// A request of the OpenAI API has no list: the tools that the operator has approved run.
    ///
    /// # Errors
    /// Rejects a tool to approve that the builder does not have.
    pub fn apply(&self, mut builder: AgentBuilder) -> Result<AgentBuilder, AgentRejection> {
        let settings = &self.settings;
        let limits = builder.limits_mut();
        limits.session = settings.session_budget();
        limits.run.turns = settings.max_turns.or(limits.run.turns);
        if let Some(level) = settings.thinking {
            builder = builder.thinking(level);
        }
        for rule in self.auto.iter().cloned() {
            builder =
                builder.approve_when(move |tool, arguments, values| rule(tool, arguments, values));
        }
        let approved = settings.approve.as_deref();
        let Some(request) = &self.request else {
            return self.approve(builder, approved.unwrap_or_default());
        };
        builder = deny_unapprovable(builder.approve_all());
        if let Some(temperature) = request.temperature {
            builder = builder.temperature(temperature);
        }
        if let Some(tokens) = request.max_tokens {
            builder = builder.max_tokens(tokens);
        }
        let approved = approved.unwrap_or_default();
        if request.llm_config.is_none() {
            // The client lists no tools, so this list is the operator's.
            let allows_all = approved.iter().any(|name| name == "all");
            return Ok(match allows_all {
                true => builder,
                false => deny_unlisted(builder, approved, not_allowed),
            });
        }
        if let Some(allowed) = self.rules.approvable() {
            builder = deny_unlisted(builder, allowed, not_allowed);
        }
        if request.confirm || settings.approve.is_some() {
            builder = deny_unlisted(builder, approved, not_listed);
        }
        Ok(builder)
    }

    /// Lets the listed tools run without approval. Of a client's tools, only those run that the
    /// operator allows.
    fn approve(
        &self,
        builder: AgentBuilder,
        approved: &[String],
    ) -> Result<AgentBuilder, AgentRejection> {
        let tools: Vec<&str> = builder.tool_specs().map(|tool| &*tool.name).collect();
        let is_known = |name: &str| {
            matches!(name, "all" | "read-only")
                || tools.contains(&name)
                || builder.has_tool_sources()
        };
        if let Some((index, name)) = approved.iter().enumerate().find(|(_, name)| !is_known(name)) {
            let path = format!("/approve/{index}");
            let why =
                format!("There is no tool `{name}`. Write `all`, or one of: {}.", tools.join(", "));
            return Err(AgentRejection::bad_request(path, why));
        }
        let approved = match self.given.approve.is_some() {
            true => self.rules.approvable_of(approved),
            false => approved.iter().map(String::as_str).collect(), // the operator's own
        };
        Ok(match approved.contains(&"all") {
            true => builder.approve_all(),
            false => builder.approve(approved.into_iter().map(str::to_owned)),
        })
    }

    /// Rejects settings that only some agents have, such as coding agents.
    pub(super) fn reject_unused(&self) -> Result<(), AgentRejection> {
        let is_coding = |setting: &Setting| setting.scope != SettingScope::All;
        let unused = self.given.first_set(|setting, value| is_coding(setting) && *value != false);
        unused.map_or(Ok(()), |name| Err(self.unused(&name)))
    }

    /// Rejects a system prompt that the agent did not ask for.
    pub(super) fn reject_unused_system(&self) -> Result<(), AgentRejection> {
        match self.given.system.is_some() && !self.uses_system() {
            true => Err(self.unused("system")),
            false => Ok(()),
        }
    }

    fn unused(&self, name: &str) -> AgentRejection {
        let agent = self.settings.agent.as_deref().unwrap_or_default();
        let why = format!("The agent `{agent}` does not have the setting `{name}`: leave it out.");
        AgentRejection::bad_request(format!("/{name}"), why)
    }
}

/// Denies calls that change something, unless their tool is listed. `why` returns the message for
/// the model.
fn deny_unlisted(
    builder: AgentBuilder,
    approved: &[String],
    why: fn(&str) -> String,
) -> AgentBuilder {
    let approved: Arc<[String]> = approved.into();
    builder.before_tool_call(move |_, call| {
        let name = &call.tool.name;
        let allowed = call.tool.effect == Effect::ReadOnly
            || approved.iter().any(|approved| **approved == **name);
        std::future::ready(match allowed {
            true => BeforeToolCall::Proceed,
            false => BeforeToolCall::Block(why(name)),
        })
    })
}

/// Denies calls that need an approval whatever the settings allow, such as changes of protected
/// files.
fn deny_unapprovable(builder: AgentBuilder) -> AgentBuilder {
    builder.before_tool_call(|cx, call| {
        let asks = match &call.tool.approval {
            Approval::Always => true,
            Approval::AlwaysIf(asks) | Approval::When(asks) => {
                asks(&call.arguments, &cx.extensions)
            }
            _ => false,
        };
        std::future::ready(match asks {
            true => BeforeToolCall::Block(format!(
                "`{}` was not run: this call always needs the user's approval, and nobody can give \
                 it here. Say what you want to do with it and why.",
                call.tool.name
            )),
            false => BeforeToolCall::Proceed,
        })
    })
}

/// Returns the message for the model when a call needs an approval that nobody can give while the
/// request streams.
fn not_listed(tool: &str) -> String {
    format!(
        "`{tool}` needs the user's approval, and was not run. Say what you want to do with it and \
         why; the user can allow it with the next message."
    )
}

/// Returns the message for the model when the operator does not let a call run without approval.
fn not_allowed(tool: &str) -> String {
    format!(
        "`{tool}` was not run: this server runs it only after a user's approval, and nobody can \
         give it here. Say what you want to do with it and why."
    )
}
