//! The agent of a live session, made of what was said when the session began.

use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_memory::SummaryCompaction;
use loopwright_patterns::PiPattern;
use loopwright_tools::{Workspace, agents_md, coding_tools_with};
use serde_json::Value;

use super::bodies::Settings;
use crate::agent_chat::system;
use crate::config::Server;
use crate::error::{ApiError, Kind};

/// An agent with these settings.
pub(crate) async fn build(
    server: &Server,
    settings: Option<&Value>,
) -> Result<GenericAgent, ApiError> {
    use serde::Deserialize;
    // A session that another program has begun may have settings of another form: then it gets the
    // server's own choices.
    let settings =
        settings.and_then(|settings| Settings::deserialize(settings).ok()).unwrap_or_default();
    let shared = server.shared();
    let model = shared.models.named(settings.model.as_deref()).map_err(|why| {
        // Not 401: it is the server that has no key for this model, and no token of the
        // client's mends that.
        ApiError::new(Kind::BadRequest, why.message).with_path("/model")
    })?;
    let workspace = shared.roots.workspace(settings.work_dir.unwrap_or_else(|| ".".into())).await?;
    let mut system = settings.system.unwrap_or_else(|| system(&workspace));
    if shared.agents_md {
        system.push_str(&projects(workspace.clone()).await);
    }
    let tools = coding_tools_with(workspace, shared.commands.clone());
    let builder =
        GenericAgent::builder(model, PiPattern).system(system).compaction(SummaryCompaction::new());
    let names: Vec<&str> = tools.names().collect();
    let builder = approved(builder, &settings.auto_approve.unwrap_or_default(), &names)?;
    Ok(builder.tools(tools).build()?)
}

/// What the project says to agents. A session begins without it where it cannot be read.
async fn projects(workspace: Workspace) -> String {
    let read = tokio::task::spawn_blocking(move || agents_md(&workspace)).await;
    match read {
        Ok(Ok(said)) => said.unwrap_or_default(),
        Ok(Err(why)) => {
            tracing::warn!(%why, "AGENTS.md is left out");
            String::new()
        }
        Err(_) => String::new(), // the server ends
    }
}

fn approved(
    builder: AgentBuilder,
    approve: &[String],
    tools: &[&str],
) -> Result<AgentBuilder, ApiError> {
    if approve.iter().any(|name| name == "all") {
        return Ok(builder.auto_all());
    }
    let unknown = approve.iter().enumerate().find(|(_, name)| !tools.contains(&name.as_str()));
    match unknown {
        Some((at, name)) => {
            let why =
                format!("There is no tool `{name}`. Write `all`, or one of: {}.", tools.join(", "));
            Err(ApiError::at(format!("/autoApprove/{at}"), why))
        }
        None => Ok(builder.auto_tools(approve.iter().cloned())),
    }
}
