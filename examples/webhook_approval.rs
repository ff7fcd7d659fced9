//! Approval by webhook: a waiting call is posted to an address, and the decision comes back over
//! HTTP, with edited arguments.
//!
//! `cargo run --example webhook_approval`
//!
//! The desk represents a chat tool or a ticket system, where a person decides hours later. A
//! decision contains the digest of the action that was shown, so it cannot approve another one.

use std::error::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use loopwright::event::{ActionResult, Decision, ExternalAction, InputEvent};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentHandle, GenericAgent, tool};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Refunds an amount.
#[tool(approval = always)]
fn refund(euros: u64) -> String {
    format!("{euros} € are refunded")
}

async fn post_json(url: &str, body: &Value) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
    let body = Full::new(Bytes::from(body.to_string()));
    let request = Request::post(url).header("content-type", "application/json").body(body)?;
    Ok(Client::builder(TokioExecutor::new()).build_http().request(request).await?.status())
}

/// Receives decisions for the session.
async fn decide(State(handle): State<AgentHandle>, Json(result): Json<ActionResult>) -> StatusCode {
    match handle.send(InputEvent::ExternalActionResult(result)).await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::CONFLICT, // not pending any more, or other arguments
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Notice {
    action: ExternalAction,
    answer_to: String,
}

/// Plays the desk: accepts a notice at once, and decides later.
async fn desk(Json(notice): Json<Notice>) -> StatusCode {
    let Notice { action, answer_to } = notice;
    println!("the desk is asked: {} {}", action.name, action.arguments);
    tokio::spawn(async move {
        let edited = Decision::ApproveWith(json!({"euros": 50}));
        let result = ActionResult::new(action.call, action.digest, edited).by("ann").source("desk");
        let body = serde_json::to_value(&result)?;
        let status = post_json(&answer_to, &body).await?;
        assert_eq!(status, StatusCode::ACCEPTED);
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    });
    StatusCode::ACCEPTED
}

async fn listen(app: Router) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(format!("http://{address}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::calls([("r", "refund", json!({"euros": 500}))]),
        Script::text("You get 50 € back."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(refund()).build()?;
    let handle = agent.session().await?;
    let app = Router::new().route("/decisions", post(decide)).with_state(handle.clone());
    let answer_to = listen(app).await? + "/decisions";
    let desk = listen(Router::new().route("/", post(desk))).await?;

    let mut events = handle.subscribe();
    handle.prompt("I want my money back.").await?;
    for action in handle.pending().await? {
        let notice = Notice { action, answer_to: answer_to.clone() };
        let accepted = post_json(&desk, &serde_json::to_value(&notice)?).await;
        println!("the desk accepts the notice: {}", accepted.map_err(|error| error.to_string())?);
    }
    while let Some(event) = events.next().await {
        use loopwright::AgentEvent::{AgentEnd, ExternalActionEnd, ToolExecutionEnd};
        match &event.event {
            ExternalActionEnd { by, decision, .. } => {
                println!("{}: {}", by.as_deref().unwrap_or("somebody"), decision.name())
            }
            ToolExecutionEnd { result, .. } => println!("{}", result.text()),
            AgentEnd(outcome) if !outcome.text.is_empty() => {
                println!("{}", outcome.text);
                break;
            }
            _ => {}
        }
    }
    Ok(())
}
