//! [`RemoteAgent`]: a tool that sends a message to a remote agent, over A2A 1.0.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loopwright_core::event::ExternalAction;
use loopwright_core::tool::ToolSpec;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use loopwright_host::ConfigError;
use loopwright_protocols::a2a_client::{
    RemoteAction, RemoteAnswer, RemoteCard, cancel_task, get_task, send_message,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::http_client::install_crypto_provider;

/// Maximum size of a card and of a response.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the maximum interval between two requests for the state of a task.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Maximum number of consecutive failed requests for the state of a task.
const MAX_FAILURES: u32 = 5;
/// The property of a question's data that names the action of the remote task.
const ACTION: &str = "remote";

/// A tool that sends messages to a remote agent, over A2A 1.0 and JSON-RPC.
///
/// The tool has the name and the description of the remote agent. A call waits until the remote
/// task has ended. If the call is cancelled, so is the task. By default each call needs an
/// approval, as the remote agent may do anything.
///
/// Approvals and questions of a remote loopwright agent are
/// [questions](loopwright_core::tool::Question) to the user of this agent. The call continues
/// with the answer, even in another process. If the user declines, or the run is aborted meanwhile,
/// the remote task keeps waiting. If an agent of another framework needs input, the model reads the
/// request and can answer with another call that names the task.
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
    asks: bool,
}

/// The arguments of a call.
#[derive(Deserialize, JsonSchema)]
struct Message {
    /// The message to the agent. It knows nothing about this conversation.
    message: String,
    /// The task that the message answers, if the agent has asked for input.
    task: Option<String>,
}

impl RemoteAgent {
    /// Reads the card of an agent. `url` is the card's URL, or, without a path, the origin of
    /// `/.well-known/agent-card.json`. A `token` is sent with all requests.
    ///
    /// # Errors
    /// Fails if the card cannot be read, and if the agent has no interface with JSON-RPC and A2A
    /// 1.0. Fails if that interface has another origin than the card, since it must not get the
    /// token.
    pub async fn connect(url: &str, token: Option<&str>) -> Result<Self, ConfigError> {
        let failed = |why: &str| ConfigError::new(format!("The agent at `{url}`: {why}"));
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
        Ok(RemoteAgent { spec: Arc::new(spec), url, http, asks: true })
    }

    /// Sends no questions to the user, for sessions without one. The model answers questions of the
    /// remote agent, and a call whose task needs an approval fails.
    pub fn no_questions(mut self) -> Self {
        self.asks = false;
        self
    }

    async fn send(&self, request: &Value) -> Result<RemoteAnswer, String> {
        let body = read(self.http.post(self.url.clone()).json(request)).await?;
        RemoteAnswer::decode(&body)
    }

    /// Waits until a task needs input or has ended.
    async fn wait(&self, task: &str) -> Result<RemoteAnswer, String> {
        let (mut interval, max_interval) = POLL_INTERVAL;
        let mut failures = 0;
        loop {
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(max_interval);
            match self.send(&get_task(task)).await {
                Ok(RemoteAnswer::Working { .. }) => failures = 0,
                // The agent may be restarting.
                Err(_) if failures < MAX_FAILURES => failures += 1,
                answer => return answer,
            }
        }
    }

    /// Sends a message or a decision, and waits until the task needs input or has ended.
    async fn ask(&self, request: &Request, cx: &ToolContext) -> Result<RemoteAnswer, ToolError> {
        let failed = |why: String| ToolError::failed(why);
        // Not cancellable before the response: a cancelled call needs the id of the task.
        let mut answer = self.send(&request.body).await;
        // Somebody else may have decided, or the response was lost. The state of the task shows the
        // result.
        if let (Err(_) | Ok(RemoteAnswer::Failed(_)), Some(action)) = (&answer, &request.decides) {
            let current = self.send(&get_task(&action.task)).await;
            if !current.as_ref().is_ok_and(|current| action.is_needed_by(current)) {
                answer = current;
            }
        }
        let task = match answer.map_err(failed)? {
            RemoteAnswer::Working { task } => task,
            answer => return Ok(answer),
        };
        tokio::select! {
            answer = self.wait(&task) => answer.map_err(failed),
            () = cx.cancelled() => {
                let _ = self.send(&cancel_task(&task)).await; // the task may have ended meanwhile
                Err(ToolError::Cancelled)
            }
        }
    }

    /// Returns the end of a call whose task needs input.
    fn needs(
        &self,
        task: &str,
        text: &str,
        actions: &[ExternalAction],
    ) -> Result<ToolOutput, ToolError> {
        let ask = |action| RemoteAction::ask(&self.spec.name, task, action);
        // A text answers one question.
        let takes_text = match actions {
            [action] => action.question().is_some_and(|question| !question.is_secret()),
            actions => actions.is_empty(),
        };
        match actions.iter().filter(|_| self.asks).find_map(ask) {
            Some((action, question)) => {
                let mut suspends = question.suspend();
                if let ToolError::Suspend(request) = &mut suspends {
                    request.data[ACTION] = serde_json::to_value(action).unwrap_or_default();
                }
                Err(suspends)
            }
            None if takes_text => Ok(ToolOutput::text(format!(
                "The agent needs input: {text}\nAnswer with another call, with `task`: {task}"
            ))),
            None => Err(ToolError::failed(format!(
                "The agent needs a decision that only its own users can take: {text}"
            ))),
        }
    }
}

/// A request to the remote agent.
struct Request {
    body: Value,
    /// The action that the request decides.
    decides: Option<RemoteAction>,
}

impl Request {
    /// Builds the request from the model's message or the user's decision.
    fn of(arguments: &Value, cx: &ToolContext) -> Result<Self, String> {
        let key = cx.idempotency_key();
        let Some(decision) = cx.decision() else {
            let message = Message::deserialize(arguments);
            let message = message.map_err(|why| format!("The arguments are invalid: {why}"))?;
            let body = send_message(&key, &message.message, message.task.as_deref());
            return Ok(Request { body, decides: None });
        };
        let action = RemoteAction::deserialize(&decision.request.data[ACTION]);
        let action = action.map_err(|why| format!("The question is unknown: {why}"))?;
        // A call may need several decisions, even on the same action.
        let body = action.decide(&format!("{key}:{}", decision.time), &decision.data);
        Ok(Request { body, decides: Some(action) })
    }
}

#[async_trait]
impl Tool for RemoteAgent {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let request = Request::of(arguments, &cx).map_err(ToolError::failed)?;
        match self.ask(&request, &cx).await? {
            RemoteAnswer::Done(text) => Ok(ToolOutput::text(text)),
            RemoteAnswer::InputRequired { task, text, actions } => {
                self.needs(&task, &text, &actions)
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

/// Reads the body of a response. Fails without a success status.
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
