//! [`RemoteAgent`]: a tool that sends a message to an agent elsewhere, with A2A 1.0.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loopwright_core::event::ExternalAction;
use loopwright_core::tool::ToolSpec;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use loopwright_protocols::a2a_client::{
    RemoteAction, RemoteAnswer, RemoteCard, cancel_task, get_task, send_message,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ConfigError;
use crate::http_client::install_crypto_provider;

/// The maximum size of a card and of a response.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
/// The time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest time between two looks at a task.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The property of the data of a question that names the action of the remote task.
const ACTION: &str = "remote";

/// Lets an agent send messages to another one, which is reached with A2A 1.0 and JSON-RPC.
///
/// The tool has the name of the remote agent and its description. A call waits until the remote
/// task has ended; if the call is cancelled, so is the task. By default each call needs an
/// approval, as the remote agent may do anything.
///
/// If the remote agent is one of loopwright, its approvals and questions are
/// [questions](loopwright_core::pattern::Question) to the user of this agent; the call goes on with
/// the answer, also in another process. What other agents need is read by the model, which can
/// answer with another call that names the task.
///
/// ```no_run
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_patterns::PiPattern;
/// use loopwright_server::RemoteAgent;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let remote = RemoteAgent::connect("https://shepherd.example", Some("its token")).await?;
/// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), PiPattern)
///     .tool(remote)
///     .build()?;
/// # Ok(()) }
/// ```
pub struct RemoteAgent {
    spec: Arc<ToolSpec>,
    url: Url,
    http: Client,
}

/// What the model sends.
#[derive(Deserialize, JsonSchema)]
struct Message {
    /// The message to the agent. It knows nothing about this conversation.
    message: String,
    /// The task that the message answers, if the agent has asked for input.
    task: Option<String>,
}

impl RemoteAgent {
    /// Reads the card of an agent: at this URL, or below it, at `/.well-known/agent-card.json`, if
    /// it has no path. With a `token`, all requests have it.
    ///
    /// # Errors
    /// Fails if the card cannot be read, if the agent has no interface with JSON-RPC and A2A 1.0,
    /// and if that is of another origin than the card, which must not get the token.
    pub async fn connect(url: &str, token: Option<&str>) -> Result<Self, ConfigError> {
        let failed = |why: &str| ConfigError(format!("The agent at `{url}`: {why}").into());
        let mut card_url = Url::parse(url).map_err(|why| failed(&why.to_string()))?;
        if card_url.path() == "/" {
            card_url.set_path("/.well-known/agent-card.json");
        }
        install_crypto_provider();
        let mut headers = HeaderMap::new();
        headers.insert("a2a-version", HeaderValue::from_static("1.0"));
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| failed("The token has illegal characters."))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // A redirect could lead to another host.
        let http = Client::builder()
            .default_headers(headers)
            .timeout(REQUEST_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|why| failed(&why.to_string()))?;
        let card = read(http.get(card_url.clone())).await.map_err(|why| failed(&why))?;
        let card = RemoteCard::decode(&card).map_err(|why| failed(&why))?;
        let url = Url::parse(&card.url).map_err(|why| failed(&why.to_string()))?;
        if token.is_some() && url.origin() != card_url.origin() {
            return Err(failed("The card names an interface of another origin."));
        }
        let spec = ToolSpec::new::<Message>(card.name, card.description);
        Ok(RemoteAgent { spec: Arc::new(spec), url, http })
    }

    async fn send(&self, request: &Value) -> Result<RemoteAnswer, String> {
        let body = read(self.http.post(self.url.clone()).json(request)).await?;
        RemoteAnswer::decode(&body)
    }

    /// Waits for the end of a task.
    async fn wait(&self, task: &str) -> Result<RemoteAnswer, String> {
        let (mut interval, max_interval) = POLL_INTERVAL;
        loop {
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(max_interval);
            match self.send(&get_task(task)).await? {
                RemoteAnswer::Working { .. } => {}
                answer => return Ok(answer),
            }
        }
    }

    /// Sends a message, and waits until the task needs input or has ended.
    async fn ask(&self, request: &Value, cx: &ToolContext) -> Result<RemoteAnswer, ToolError> {
        let failed = |why: String| ToolError::failed(why);
        // A cancelled call needs the id of the task.
        let answer = self.send(request).await.map_err(failed)?;
        let RemoteAnswer::Working { task } = answer else { return Ok(answer) };
        tokio::select! {
            answer = self.wait(&task) => answer.map_err(failed),
            () = cx.cancelled() => {
                let _ = self.send(&cancel_task(&task)).await; // it may have ended meanwhile
                Err(ToolError::Cancelled)
            }
        }
    }

    /// Returns the question that asks for the decision on the first action that a question can
    /// ask for.
    fn question(&self, task: &str, actions: &[ExternalAction]) -> Option<ToolError> {
        let ask = |action| RemoteAction::ask(&self.spec.name, task, action);
        let (action, question) = actions.iter().find_map(ask)?;
        let mut suspends = question.suspend();
        if let ToolError::Suspend(request) = &mut suspends {
            request.data[ACTION] = serde_json::to_value(action).unwrap_or_default();
        }
        Some(suspends)
    }
}

/// Returns the message for the remote agent: that of the model, or the user's decision.
fn request(arguments: &Value, cx: &ToolContext) -> Result<Value, String> {
    let key = cx.idempotency_key();
    match cx.decision() {
        None => {
            let message = Message::deserialize(arguments);
            let message = message.map_err(|why| format!("The arguments are invalid: {why}"))?;
            Ok(send_message(&key, &message.message, message.task.as_deref()))
        }
        Some(decision) => {
            let action = RemoteAction::deserialize(&decision.request.data[ACTION]);
            let action = action.map_err(|why| format!("The question is unknown: {why}"))?;
            Ok(action.decide(&key, &decision.data))
        }
    }
}

#[async_trait]
impl Tool for RemoteAgent {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let request = request(arguments, &cx).map_err(ToolError::failed)?;
        match self.ask(&request, &cx).await? {
            RemoteAnswer::Done(text) => Ok(ToolOutput::text(text)),
            RemoteAnswer::InputRequired { task, text, actions } => {
                if let Some(suspends) = self.question(&task, &actions) {
                    return Err(suspends);
                }
                let how = format!("Answer with another call, with `task`: {task}");
                Ok(ToolOutput::text(format!("The agent needs input: {text}\n{how}")))
            }
            RemoteAnswer::Failed(why) => Err(ToolError::failed(why)),
            _ => Err(ToolError::failed("The agent's task is still in progress.")),
        }
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        let checked = Message::deserialize(arguments).map(|_| ());
        Some(checked.map_err(|why| why.to_string()))
    }
}

impl fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAgent").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// Reads the body of a response, whose status must be a success.
async fn read(request: RequestBuilder) -> Result<Vec<u8>, String> {
    let response = request.send().await.map_err(|why| why.without_url().to_string())?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("It answers with status {status}."));
    }
    let (mut body, mut chunks) = (Vec::new(), response.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|why| why.without_url().to_string())?);
        if body.len() > MAX_RESPONSE_BYTES {
            return Err(format!("It sends more than {MAX_RESPONSE_BYTES} bytes."));
        }
    }
    Ok(body)
}
