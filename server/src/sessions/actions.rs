//! Actions: the calls that wait for an answer from outside, and the answers.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_core::ToolOutput;
use loopwright_core::agent::InputError;
use loopwright_core::event::{ActionResult, Decision, InputEvent, Provided};
use loopwright_core::log::{LogEntry, PendingAction, PendingFilter};
use loopwright_core::message::InputId;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::bodies::input_id;
use super::path::{Call, Id};
use super::{refused, with_session};
use crate::body::JsonBody;
use crate::config::Server;
use crate::error::{ApiError, Kind};
use crate::shares::Client;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/actions", get(all))
        .route("/api/sessions/{id}/actions", get(of_session))
        .route("/api/sessions/{id}/actions/{call}", post(decide))
}

/// What waits for an answer, the oldest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Actions {
    actions: Vec<PendingAction>,
}

/// An answer to an action.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [
    needs("approve_with", "arguments"),
    needs("result", "content"),
    needs("answer", "data"),
]))]
pub(crate) struct Answer {
    /// The digest of the action that was shown, so that nobody approves what they have not seen.
    digest: String,
    decision: Verdict,
    /// For `approve_with`: the arguments to run it with instead.
    #[serde(default)]
    arguments: Option<Value>,
    /// For `deny`: what the model is told.
    #[serde(default)]
    reason: Option<String>,
    /// For `result`: what came of it elsewhere.
    #[serde(default)]
    content: Option<Content>,
    /// For `answer`: what the tool asks for. For `result`: data for front ends.
    #[serde(default)]
    data: Option<Value>,
    /// Who answers.
    #[serde(default)]
    by: Option<String>,
    /// The client's id of this input: the same one again is acknowledged and changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    id: Option<String>,
}

/// What is decided.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Run it as shown.
    Approve,
    /// Run it with other arguments.
    ApproveWith,
    /// Do not run it.
    Deny,
    /// It was done elsewhere.
    Result,
    /// What a suspended tool asked for.
    Answer,
}

/// A result: a text, or texts and images.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ResultContent")]
pub(crate) enum Content {
    /// A text.
    Text(String),
    /// Pieces.
    Pieces(Vec<loopwright_core::message::Content>),
}

/// Not by `untagged`, which takes numbers for the types of pieces.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let content = match raw.get().starts_with('"') {
            true => serde_json::from_str(raw.get()).map(Content::Text),
            false => serde_json::from_str(raw.get()).map(Content::Pieces),
        };
        content.map_err(D::Error::custom)
    }
}

/// The answer is in the session's log.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Decided {
    /// The id of this input.
    input: InputId,
}

async fn all(State(server): State<Server>) -> Result<Json<Actions>, ApiError> {
    Ok(Json(Actions { actions: server.shared().store.pending(&PendingFilter::new()).await? }))
}

async fn of_session(State(server): State<Server>, Id(id): Id) -> Result<Json<Actions>, ApiError> {
    let actions = server.shared().store.session(&id).await?.pending;
    Ok(Json(Actions { actions }))
}

async fn decide(
    State(server): State<Server>,
    Call(id, call): Call,
    client: Client,
    JsonBody(answer): JsonBody<Answer>,
) -> Result<Json<Decided>, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let answer = answer.result(&call)?;
    let sent = with_session(&server, &id, Some(client), async |handle| {
        match handle.send(InputEvent::ExternalActionResult(answer)).await {
            Err(InputError::NotPending(_)) => Ok(None), // what became of it is told
            sent => sent.map(Some),
        }
    });
    match sent.await? {
        Some(input) => Ok(Json(Decided { input })),
        None => Err(not_open(&shared.store.read(&id, 0).await?, &call)),
    }
}

/// That a decision needs a field, as a schema says it.
fn needs(decision: &str, field: &str) -> Value {
    let given = json!({ (field): { "not": { "type": "null" } } });
    json!({
        "if": { "properties": { "decision": { "const": decision } } },
        "then": { "properties": given, "required": [field] },
    })
}

impl Answer {
    fn result(self, call: &str) -> Result<ActionResult, ApiError> {
        let missing = |path, what| ApiError::at(path, format!("This decision needs {what}."));
        let decision = match self.decision {
            Verdict::Approve => Decision::Approve,
            Verdict::ApproveWith => {
                let arguments = self
                    .arguments
                    .ok_or_else(|| missing("/arguments", "the arguments to run it with"))?;
                Decision::ApproveWith(arguments)
            }
            Verdict::Deny => Decision::Deny(self.reason.unwrap_or_default()),
            Verdict::Result => {
                let mut output =
                    match self.content.ok_or_else(|| missing("/content", "the result"))? {
                        Content::Text(text) => ToolOutput::text(text),
                        Content::Pieces(content) => {
                            let mut output = ToolOutput::default();
                            output.content = content;
                            output
                        }
                    };
                output.details = self.data;
                Decision::Provide(Provided::Result(output))
            }
            Verdict::Answer => Decision::Provide(Provided::Input(
                self.data.ok_or_else(|| missing("/data", "what the tool asks for"))?,
            )),
        };
        let mut result = ActionResult::new(call, self.digest, decision);
        result.id = input_id(self.id)?;
        if let Some(by) = self.by.filter(|by| !by.is_empty()) {
            result = result.by(by);
        }
        Ok(result)
    }
}

/// Why a call does not wait for an answer: what was decided, and by whom, as far as the log tells.
fn not_open(items: &[LogEntry], wanted: &str) -> ApiError {
    let mut why = None;
    for item in items {
        match item {
            LogEntry::Decided { call, decision, by, .. } if **call == *wanted => {
                let by = by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
                why = Some(format!("was answered with `{}`{by} before", decision.name()));
            }
            LogEntry::CallFinished { result } => {
                let result = result.as_tool_result().filter(|result| *result.call == *wanted);
                if let (None, Some(result)) = (&why, result) {
                    why = Some(format!(
                        "has its result already: {}",
                        refused::first_line(&result.text())
                    ));
                }
            }
            LogEntry::CallStarted { call, .. } if **call == *wanted && why.is_none() => {
                why = Some("runs without an answer".into());
            }
            _ => {}
        }
    }
    match why {
        Some(why) => ApiError::new(
            Kind::Conflict,
            format!("The call `{wanted}` {why}. Nothing was changed."),
        ),
        None => ApiError::new(
            Kind::NotFound,
            format!("No call `{wanted}` of this session waits for an answer, or ever did."),
        ),
    }
}
