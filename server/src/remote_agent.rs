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
/// How many requests for the state of a task may fail one after the other.
const MAX_FAILURES: u32 = 5;
/// The property of the data of a question that names the action of the remote task.
const ACTION: &str = "remote";

/// Lets an agent send messages to another one, which is reached with A2A 1.0 and JSON-RPC.
///
/// The tool has the name of the remote agent and its description. A call waits until the remote
/// task has ended; if it is cancelled meanwhile, so is the task. By default each call needs an
/// approval, as the remote agent may do anything.
///
/// Approvals and questions of a remote agent of loopwright are
/// [questions](loopwright_core::pattern::Question) to the user of this agent. The call continues
/// with the answer, also in another process. If the user declines, or the run is aborted meanwhile,
/// the remote task still waits. The model reads what agents of other frameworks need, and can
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
    asks: bool,
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
        Ok(RemoteAgent { spec: Arc::new(spec), url, http, asks: true })
    }

    /// Puts nothing to the user, for sessions without one: the model answers questions of the
    /// remote agent, and a call fails whose task needs an approval.
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
                // It may be restarted.
                Err(_) if failures < MAX_FAILURES => failures += 1,
                answer => return answer,
            }
        }
    }

    /// Sends a message or a decision, and waits until the task needs input or has ended.
    async fn ask(&self, request: &Request, cx: &ToolContext) -> Result<RemoteAnswer, ToolError> {
        let failed = |why: String| ToolError::failed(why);
        // A cancelled call needs the id of the task.
        let mut answer = self.send(&request.body).await;
        // Another one may have decided, or the response was lost: the task says what has happened.
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
                let _ = self.send(&cancel_task(&task)).await; // it may have ended meanwhile
                Err(ToolError::Cancelled)
            }
        }
    }

    /// Returns how the call ends while the task waits for this.
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

/// What is sent to the remote agent.
struct Request {
    body: Value,
    /// The action that it decides.
    decides: Option<RemoteAction>,
}

impl Request {
    /// Returns the message of the model, or the decision of the user.
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
        // A call may need several decisions, also on the same action.
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
