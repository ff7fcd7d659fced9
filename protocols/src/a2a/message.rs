//! [`SendMessage`]: a message of a client, as inputs of a session.

use loopwright_core::event::{
    ActionResult, Decision, ExternalAction, Input, InputEvent, Prompt, Provided,
};
use loopwright_core::message::{Content, UserMessage};
use serde::Deserialize;
use serde_json::Value;

use super::code;
use super::task::TaskId;
use crate::from_json::from_json;
use crate::json::check_id;
use crate::media::file;
use crate::prompt::is_blank;
use crate::rpc::RpcError;

/// The maximum number of parts of a message.
const MAX_PARTS: usize = 1_000;

/// A message of a client.
#[derive(Debug)]
#[non_exhaustive]
pub struct SendMessage {
    /// The client's id of the message.
    pub id: String,
    /// The id of the context; `None` for a new context.
    pub context: Option<String>,
    /// The task that the message continues; `None` to start one.
    pub task: Option<TaskId>,
    /// `true` to respond without waiting for the task.
    pub return_immediately: bool,
    content: Vec<Content>,
    decisions: Vec<DecisionPart>,
}

#[derive(Deserialize)]
struct Params {
    message: Message,
    configuration: Option<Configuration>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    return_immediately: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    message_id: String,
    context_id: Option<String>,
    task_id: Option<String>,
    role: Option<String>,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    raw: Option<String>,
    url: Option<String>,
    data: Option<Value>,
}

/// The data of a part that decides a pending action of a task.
#[derive(Debug, Deserialize)]
struct DecisionPart {
    call: String,
    digest: String,
    decision: String,
    arguments: Option<Value>,
    reason: Option<String>,
    data: Option<Value>,
}

impl SendMessage {
    /// Parses the parameters of a call.
    pub(super) fn decode(params: &Value) -> Result<Self, RpcError> {
        let params: Params = from_json(params.to_string().as_bytes(), "")?;
        let message = params.message;
        let given = |id: Option<String>| id.filter(|id| !id.is_empty());
        if message.role.is_some_and(|role| role != "ROLE_USER") {
            return Err(RpcError::invalid_params("/message/role: Send messages of `ROLE_USER`."));
        }
        let task = |id: String| TaskId::parse(&id).ok_or_else(TaskId::unknown);
        let task = given(message.task_id).map(task).transpose()?;
        let context = |id: String| check_id(id, "/message/contextId");
        let context = given(message.context_id).map(context).transpose()?;
        if let (Some(task), Some(context)) = (&task, &context)
            && task.context != *context
        {
            return Err(RpcError::invalid_params(
                "/message/taskId: The task is of another context.",
            ));
        }
        let context = context.or_else(|| task.as_ref().map(|task| task.context.clone()));
        if message.parts.len() > MAX_PARTS {
            let why = format!("/message/parts: There are more than {MAX_PARTS} parts.");
            return Err(RpcError::invalid_params(why));
        }
        let (mut content, mut decisions) = (Vec::new(), Vec::new());
        for (index, part) in message.parts.into_iter().enumerate() {
            let path = format!("/message/parts/{index}");
            match part.data {
                Some(data) if task.is_some() => {
                    let data = data.to_string();
                    decisions.push(from_json(data.as_bytes(), &format!("{path}/data"))?);
                }
                data => content.push(Part { data, ..part }.content(&path)?),
            }
        }
        let configuration = params.configuration.unwrap_or_default();
        Ok(SendMessage {
            id: check_id(message.message_id, "/message/messageId")?,
            context,
            task,
            return_immediately: configuration.return_immediately == Some(true),
            content,
            decisions,
        })
    }

    /// Returns the inputs for the session: a request, or the decisions on the actions of the task
    /// that the message continues. `pending` are the session's pending actions.
    ///
    /// A decision names the action's digest. A text answers a question if no other action is
    /// pending.
    ///
    /// # Errors
    /// Fails if the message is empty or decides nothing.
    pub fn inputs(self, pending: &[ExternalAction]) -> Result<Vec<Input>, RpcError> {
        if self.task.is_none() {
            if is_blank(&self.content) {
                return Err(RpcError::invalid_params("/message/parts: The message is empty."));
            }
            let prompt = Prompt::from(UserMessage::new(self.content));
            return Ok(vec![InputEvent::UserRequest(prompt).with_id(self.id)]);
        }
        if pending.is_empty() {
            let why = "The task does not wait for input: send a message without `taskId`.";
            return Err(RpcError::new(code::UNSUPPORTED_OPERATION, why));
        }
        if !self.decisions.is_empty() {
            let decided = self.decisions.into_iter().enumerate().map(|(index, part)| {
                let id = format!("{}:{index}", self.id);
                Ok(InputEvent::ExternalActionResult(part.result()?).with_id(id))
            });
            return decided.collect();
        }
        let text = UserMessage::new(self.content).text();
        let asked = match pending {
            [action] => action.question().filter(|question| !question.is_secret()),
            _ => None,
        };
        let (Some(question), [action]) = (asked, pending) else { return Err(needs_data()) };
        let why = |why| format!("This does not answer the question: {why}");
        let answer = question.read(&text).map_err(|it| RpcError::invalid_params(why(it)))?;
        let decision = Decision::Provide(Provided::Input(answer));
        let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
        Ok(vec![InputEvent::ExternalActionResult(result).with_id(self.id)])
    }
}

/// Returns the error for a text where decisions are needed.
fn needs_data() -> RpcError {
    RpcError::invalid_params(
        "/message/parts: Decide each action with a part that has `data`: `call` and `digest` of \
         the action, and `decision`, which is `approve`, `deny` or `provide`.",
    )
}

impl DecisionPart {
    fn result(self) -> Result<ActionResult, RpcError> {
        let decision = match (&*self.decision, self.arguments) {
            ("approve", None) => Decision::Approve,
            ("approve", Some(arguments)) => Decision::ApproveWith(arguments),
            ("deny", _) => Decision::Deny(self.reason.unwrap_or_default()),
            ("provide", _) => Decision::Provide(Provided::Input(self.data.unwrap_or_default())),
            _ => return Err(needs_data()),
        };
        Ok(ActionResult::new(self.call, self.digest, decision))
    }
}

impl Part {
    fn content(self, path: &str) -> Result<Content, RpcError> {
        match self {
            Part { text: Some(text), .. } => Ok(Content::Text { text }),
            Part { raw: Some(raw), .. } => file(&raw).map_err(|why| {
                RpcError::new(code::CONTENT_TYPE_NOT_SUPPORTED, format!("{path}/raw: {why}"))
            }),
            Part { data: Some(data), .. } => Ok(Content::Text { text: data.to_string() }),
            Part { url: Some(_), .. } => {
                let why = format!("{path}/url: The server opens no URLs: send the file as `raw`.");
                Err(RpcError::new(code::CONTENT_TYPE_NOT_SUPPORTED, why))
            }
            _ => Err(RpcError::invalid_params(format!("{path}: The part is empty."))),
        }
    }
}
