//! Pending actions, and the decisions that resolve them.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_core::ToolOutput;
use loopwright_core::event::{ActionResult, Decision, Provided, change_digest};
use loopwright_core::log::{PendingAction, PendingQuery};
use loopwright_core::message::Content;
use loopwright_core::tool::DecisionKind;
use loopwright_host::RejectionKind;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::bodies::{AcceptedInput, input_id};
use crate::access::path::{CallPath, SessionId};
use crate::access::{Caller, Read, check_session, may_see};
use crate::error::{ApiError, ErrorKind};
use crate::inputs::resolve_action;
use crate::json::JsonBody;
use crate::limits::quota::Client;
use crate::routes::page_query::{cursor, limit};
use crate::server::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/actions", get(all))
        .route("/api/sessions/{id}/actions", get(of_session))
        .route("/api/sessions/{id}/actions/{call}", post(resolve))
        .route("/api/sessions/{id}/actions/{call}/preview", get(preview))
}

/// Pending actions, the oldest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Actions {
    actions: Vec<PendingAction>,
    /// The `after` of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The query of a request for pending actions.
#[derive(Deserialize)]
struct ActionsQuery {
    after: Option<String>,
    limit: Option<u32>,
    tool: Option<String>,
    role: Option<String>,
}

/// The effect of a pending call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ActionPreview {
    /// The digest of the action.
    digest: Arc<str>,
    /// The change to a file, as a unified diff; empty if no line would change. Missing if the call
    /// changes no file, or if there is a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The digest of the change. An approval with it runs the call only if it still makes this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Arc<str>>,
    /// A sentence that says why there is no diff: the call would fail, or the diff is longer than
    /// 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// A decision that resolves a pending action.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [
    requires("approve_with", &["arguments"]),
    requires("provide", &["data", "content"]),
]))]
pub(crate) struct DecisionBody {
    /// The digest of the action that was shown, so that nobody approves anything unseen.
    digest: String,
    decision: DecisionKind,
    /// For `approve_with`: the arguments that replace the model's.
    #[serde(default)]
    arguments: Option<Value>,
    /// For `deny`: the reason, which the model reads.
    #[serde(default)]
    reason: Option<String>,
    /// For `provide`: the result of a call that was run outside the agent.
    #[serde(default)]
    content: Option<ResultContent>,
    /// For `provide`: the input that a suspended tool asked for, or the answer to a question (see
    /// `Question`): a string for `choice`, `text` and `secret`, an array of the chosen options for
    /// `several`, for `json` a value that matches the schema. An invalid answer is refused with
    /// status 400. With `content`: details of the result for front ends.
    #[serde(default)]
    data: Option<Value>,
    /// For `approve`: the `change` of the preview that was shown. If the call would make another
    /// one when it is about to start, it does not run, and the model is told.
    #[serde(default)]
    change: Option<String>,
    /// The client's id of this input. An input whose id the session already has is accepted and
    /// changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    id: Option<String>,
}

/// A result: a text, or texts and images.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(crate) enum ResultContent {
    /// A single text.
    Text(String),
    /// Several texts and images.
    Parts(Vec<Content>),
}

/// Not derived with `untagged`, which accepts numbers for the types of parts.
impl<'de> Deserialize<'de> for ResultContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let content = match raw.get().starts_with('"') {
            true => serde_json::from_str(raw.get()).map(ResultContent::Text),
            false => serde_json::from_str(raw.get()).map(ResultContent::Parts),
        };
        content.map_err(D::Error::custom)
    }
}

impl ResultContent {
    fn output(self, details: Option<Value>) -> ToolOutput {
        let mut output = match self {
            ResultContent::Text(text) => ToolOutput::text(text),
            ResultContent::Parts(content) => {
                let mut output = ToolOutput::default();
                output.content = content;
                output
            }
        };
        output.details = details;
        output
    }
}

/// Returns a schema in which a decision requires one of these fields.
fn requires(decision: &str, fields: &[&str]) -> Value {
    let given = |field: &&str| {
        let value = json!({ (*field): { "not": { "type": "null" } } });
        json!({ "properties": value, "required": [field] })
    };
    let alternatives: Vec<Value> = fields.iter().map(given).collect();
    json!({
        "if": { "properties": { "decision": { "const": decision } } },
        "then": { "anyOf": alternatives },
    })
}

impl DecisionBody {
    fn result(self, call: &str) -> Result<ActionResult, ApiError> {
        let decision = match self.decision {
            DecisionKind::Approve => Decision::Approve,
            DecisionKind::ApproveWith => {
                Decision::ApproveWith(self.arguments.ok_or_else(|| {
                    let why = "`approve_with` needs `arguments`: those to run the call with.";
                    ApiError::at("/arguments", why)
                })?)
            }
            DecisionKind::Deny => Decision::Deny(self.reason.unwrap_or_default()),
            DecisionKind::Provide => Decision::Provide(match (self.content, self.data) {
                (Some(content), details) => Provided::Result(content.output(details)),
                (None, Some(input)) => Provided::Input(input),
                (None, None) => {
                    let why = "`provide` needs `data`, the input that the tool asks for, or \
                               `content`, the result of a call that was carried out outside.";
                    return Err(ApiError::at("/data", why));
                }
            }),
            _ => return Err(ApiError::at("/decision", "The server does not support this one.")),
        };
        let is_approval = decision == Decision::Approve;
        let change = self.change.filter(|_| is_approval).map(Arc::from);
        Ok(ActionResult::new(call, self.digest, decision).change(change))
    }
}

async fn all(
    State(server): State<Server>,
    caller: Caller,
    query: Result<Query<ActionsQuery>, QueryRejection>,
) -> Result<Json<Actions>, ApiError> {
    let Query(given) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    let mut query = PendingQuery::new(limit(given.limit)?);
    query.after = cursor(given.after)?;
    query.tool = given.tool.map(Into::into);
    query.roles = given.role.into_iter().map(Into::into).collect();
    let store = &server.shared().store;
    let page = store.pending(&query).await?;
    let next = page.next.map(|cursor| cursor.to_string());
    let mut actions = page.actions;
    if caller.named().is_some() {
        let mut seen = Vec::new();
        for action in actions {
            // The session may have been deleted meanwhile.
            let Ok(session) = store.session(&action.session).await else { continue };
            if may_see(&server, &caller, &session, &action).await {
                seen.push(action);
            }
        }
        actions = seen;
    }
    Ok(Json(Actions { actions, next }))
}

async fn of_session(
    State(server): State<Server>,
    SessionId(id): SessionId,
    caller: Caller,
) -> Result<Json<Actions>, ApiError> {
    let session = server.shared().store.session(&id).await?;
    let mut actions = Vec::new();
    for action in &session.pending {
        if may_see(&server, &caller, &session, action).await {
            actions.push(action.clone());
        }
    }
    if actions.is_empty() {
        check_session::<Read>(&server, &caller, &id).await?; // else its existence is hidden
    }
    Ok(Json(Actions { actions, next: None }))
}

async fn preview(
    State(server): State<Server>,
    CallPath { session, call }: CallPath,
    caller: Caller,
) -> Result<Json<ActionPreview>, ApiError> {
    let shared = server.shared();
    let info = shared.store.session(&session).await?;
    let pending = info.pending.iter().find(|pending| *pending.action.call == *call);
    let seen = match pending {
        Some(pending) if may_see(&server, &caller, &info, pending).await => Some(&pending.action),
        _ => None,
    };
    let Some(action) = seen.cloned() else {
        check_session::<Read>(&server, &caller, &session).await?;
        let why = format!("The session has no pending call `{call}`.");
        return Err(ApiError::new(ErrorKind::NotFound, why));
    };
    let digest = action.digest.clone();
    let mut preview = ActionPreview { digest, diff: None, change: None, problem: None };
    // Only an approval runs the call with these arguments, so other requests have no preview.
    if action.request.is_none() {
        let settings = shared.agents.stored_settings(info.settings.as_deref());
        let principal = info.owner.as_ref().or(shared.principal.as_ref());
        match shared.agents.preview(settings, principal, &action).await {
            Ok(diff) => {
                preview.change = diff.as_deref().map(change_digest);
                preview.diff = diff;
            }
            Err(error) if error.kind() == RejectionKind::BadRequest => {
                preview.problem = Some(error.message().into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(preview))
}

async fn resolve(
    State(server): State<Server>,
    CallPath { session, call }: CallPath,
    client: Client,
    caller: Caller,
    JsonBody(mut body): JsonBody<DecisionBody>,
) -> Result<Json<AcceptedInput>, ApiError> {
    let input = input_id(body.id.take())?;
    let result = body.result(&call)?;
    let input = resolve_action(&server, &caller, client, &session, result, input).await?;
    Ok(Json(AcceptedInput { input }))
}
