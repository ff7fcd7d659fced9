//! The rows in which a second process continues the work of the first.

use std::time::Duration;

use compare_common::{self as common, Setup};
use everruns::hosting::{AgentBuild, ApprovalCommit, SqliteHosting, ToolApprovalDecision};
use everruns::{Agent, CancellationToken, Engine, MessageId, SessionId};
use serde_json::{Value, json};

use crate::Fallible;

/// Runs a row.
pub async fn run(setup: &Setup, agent: Agent) -> Fallible<Value> {
    let build = AgentBuild::new("agent", "1");
    let hosting = SqliteHosting::open(setup.dir.join("authority.db"))?;
    let engine = Engine::builder().hosting(hosting.clone()).register(build.clone(), agent).build();
    let id: SessionId = "session_00000000000000000000000000000001".parse()?;
    let message: MessageId = "message_00000000000000000000000000000001".parse()?;
    let supervised = engine.clone();
    tokio::spawn(async move { hosting.supervise(supervised, CancellationToken::new()).await });
    let first = matches!(setup.row.as_str(), "kill" | "ask");
    let session = match first {
        true => engine.create_registered(id, &build).await?,
        false => engine.resume(id).await?,
    };
    if setup.row == "kill" {
        let sent = session.send_with_id(message, r#"CALL charge {"euros": 20}"#).await?;
        let run = async { sent.wait().await.map(|turn| turn.response) };
        return Ok(common::end_of(run).await);
    }
    if setup.row == "ask" {
        session.send_with_id(message, r#"CALL pay {"euros": 20}"#).await?;
        while session.pending_tools().await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        return Ok(json!({"pending": session.pending_tools().await?.len()}));
    }
    if setup.row == "approve" {
        let turn_id = engine.session_status(id).await?.open_turn.ok_or("no turn is open")?;
        for call in session.pending_tools().await? {
            // A decision has no arguments: Allow, AllowAlways, Reject, RejectAlways.
            let decision = ToolApprovalDecision::Allow;
            let commit = ApprovalCommit { turn_id, request_id: call.id, decision };
            session.approve_tools(uuid::Uuid::new_v4(), vec![commit]).await?;
        }
    }
    let admission = session.admission(message).await?.ok_or("the message is lost")?;
    let run = async { admission.wait().await.map(|turn| turn.response) };
    Ok(common::end_of(run).await)
}
