//! [`ChatRequest`]: the body that a chat posts.

use loopwright_core::event::{ActionResult, Decision, Input, InputEvent, Provided};
use loopwright_core::message::{CallId, Content};

use crate::error::DecodeError;
use crate::from_json::from_json;
use crate::json::Node;
use crate::media::data_url;
use crate::shown_runs::{Awaited, awaited};

/// The request of a client for its chat.
///
/// The session owns the conversation. Of the client's messages only these are read: the user's
/// messages after the last reply, and the answers in the reply that the request continues.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The client's id of the chat.
    pub chat: String,
    /// The inputs for the session. Their ids are derived from the body, so that repeating a body
    /// changes nothing.
    pub inputs: Vec<Input>,
    /// The calls that the client's reply already has, if the request continues it.
    pub known_calls: Vec<CallId>,
}

impl ChatRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// Fails if the body is invalid, has neither a new message nor an answer, or has content that
    /// no model accepts. Also fails if the request would change the past, because a log is
    /// append-only.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let body = from_json(body, "")?;
        let body = Node::root(&body);
        let chat = body.field("id")?.id()?;
        if let Some(trigger) = body.get("trigger")
            && trigger.text()? != "submit-message"
        {
            let why = "A reply is not generated twice, as a conversation is only appended to: send \
                       a message that says what should be different.";
            return Err(trigger.error(why));
        }
        let messages = body.field("messages")?;
        let list = messages.elements()?;
        let is_reply = |message: &Node<'_>| message.str("role") == Some("assistant");
        let named = body.str("messageId");
        let mut request =
            ChatRequest { chat: chat.into(), inputs: Vec::new(), known_calls: Vec::new() };
        let last = list.iter().rposition(is_reply);
        let new = &list[last.map_or(0, |last| last + 1)..];
        let is_named = |message: &&Node<'_>| named.is_some() && message.str("id") == named;
        if let Some(message) = new.iter().find(is_named) {
            let why = "A message is not changed, as a conversation is only appended to: send \
                       another one.";
            return Err(message.error(why));
        }
        let continued = list.iter().filter(|message| is_reply(message)).find(is_named);
        let last = last.filter(|_| new.is_empty()).map(|last| &list[last]);
        if let Some(reply) = continued.or(last) {
            request.take_answers(reply)?;
        }
        for message in new {
            if message.field("role")?.text()? == "user" {
                request.inputs.push(crate::prompt::request(message, content(message)?)?);
            }
        }
        if request.inputs.is_empty() {
            let why = "There is neither a new message nor an answer to what the reply asks.";
            return Err(messages.error(why));
        }
        Ok(request)
    }

    /// Returns what the response waits for: the decisions, and the last request.
    pub fn awaited(&self) -> Vec<Awaited> {
        awaited(&self.inputs)
    }

    fn take_answers(&mut self, reply: &Node<'_>) -> Result<(), DecodeError> {
        for part in reply.field("parts")?.elements()? {
            if let Some(call) = part.str("toolCallId") {
                self.known_calls.push(call.into());
                self.inputs.extend(answer(&part, call)?);
            }
        }
        Ok(())
    }
}

/// Returns the decision in the part of a call, if it has one.
fn answer(part: &Node<'_>, call: &str) -> Result<Option<Input>, DecodeError> {
    let waits = part.get("toolMetadata").and_then(|metadata| metadata.get("digest"));
    let (digest, decision) = match (part.str("state"), waits) {
        (Some("approval-responded"), _) => {
            let approval = part.field("approval")?;
            let id = approval.field("id")?;
            let Some((digest, _)) = id.text()?.split_once(':').filter(|(_, of)| *of == call) else {
                return Err(id.error("This is not the id of an approval of this call."));
            };
            let decision = match approval.field("approved")?.bool()? {
                true => Decision::Approve,
                false => Decision::Deny(approval.str("reason").unwrap_or("").into()),
            };
            (digest, decision)
        }
        (Some("output-available"), Some(digest)) => {
            let output = part.get("output").map(|output| output.value().clone());
            let provided = Provided::Input(output.unwrap_or_default());
            (digest.text()?, Decision::Provide(provided))
        }
        (Some("output-error"), Some(digest)) => {
            let why = part.str("errorText").unwrap_or("").into();
            (digest.text()?, Decision::Deny(why))
        }
        _ => return Ok(None),
    };
    // A new answer, after a refused one, must be a new input.
    let answer = serde_json::to_string(&decision).unwrap_or_default();
    let id = format!("answer:{digest}:{call}:{:016x}", fnv_1a(&answer));
    let result = ActionResult::new(call, digest, decision);
    Ok(Some(InputEvent::ExternalActionResult(result).with_id(id)))
}

/// Returns the FNV-1a hash of a text, which is the same in every process.
fn fnv_1a(text: &str) -> u64 {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

fn content(message: &Node<'_>) -> Result<Vec<Content>, DecodeError> {
    let mut content = Vec::new();
    for part in message.field("parts")?.elements()? {
        match part.field("type")?.text()? {
            "text" => content.push(Content::text(part.field("text")?.text()?)),
            "file" => content.push(file(&part)?),
            _ => {} // of the app
        }
    }
    Ok(content)
}

fn file(part: &Node<'_>) -> Result<Content, DecodeError> {
    let url = part.field("url")?;
    data_url(url.text()?).map_err(|why| url.error(why))
}
