//! [`RunRequest`]: the `RunAgentInput` of a client.

use loopwright_core::event::Input;
use loopwright_core::message::Content;

use super::interrupt;
use crate::error::DecodeError;
use crate::from_json::from_json;
use crate::json::Node;
use crate::media::file;
use crate::prompt;
use crate::shown_runs::{Awaited, awaited};

/// The request of a client for its thread.
///
/// The session owns the conversation, its state and the agent's tools. Of a client's body only
/// `resume` is read, and the user's messages after the last reply.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunRequest {
    /// The client's id of the thread.
    pub thread: String,
    /// The client's id of the run, which appears in its events.
    pub run: String,
    /// The inputs for the session: the decisions of `resume`, then the messages of the user. Their
    /// ids are derived from the body, so that repeating a body changes nothing.
    pub inputs: Vec<Input>,
}

impl RunRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// Fails if the body is not a `RunAgentInput`, if a new message has content that no model
    /// accepts, or if an answer does not belong to an interrupt.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let body = from_json(body, "")?;
        let body = Node::root(&body);
        let thread = body.field("threadId")?.id()?;
        let run = body.field("runId")?.id()?;
        let mut inputs = Vec::new();
        if let Some(resume) = body.get("resume") {
            for entry in resume.elements()? {
                inputs.push(interrupt::decision(&entry, run)?);
            }
        }
        let messages = body.field("messages")?.elements()?;
        let is_reply = |message: &Node<'_>| {
            matches!(message.str("role"), Some("assistant" | "tool" | "reasoning" | "activity"))
        };
        let new = messages.iter().rposition(is_reply).map_or(0, |last| last + 1);
        for message in &messages[new..] {
            if message.field("role")?.text()? == "user" {
                inputs.push(prompt::request(message, content(message)?)?);
            }
        }
        Ok(RunRequest { thread: thread.into(), run: run.into(), inputs })
    }

    /// Returns what the response waits for: the decisions, and the last request. The list is empty
    /// if the client sends no input, to follow the run in progress.
    pub fn awaited(&self) -> Vec<Awaited> {
        awaited(&self.inputs)
    }
}

fn content(message: &Node<'_>) -> Result<Vec<Content>, DecodeError> {
    let content = message.field("content")?;
    match content.value().as_str() {
        Some(text) => Ok(vec![Content::text(text)]),
        None => content.elements()?.iter().map(part).collect(),
    }
}

fn part(part: &Node<'_>) -> Result<Content, DecodeError> {
    match part.field("type")?.text()? {
        "text" => Ok(Content::text(part.field("text")?.text()?)),
        "image" | "document" => {
            let source = part.field("source")?;
            if source.field("type")?.text()? != "data" {
                let why = "Nothing is fetched here: send the bytes, as a source of type `data`.";
                return Err(source.error(why));
            }
            let value = source.field("value")?;
            file(value.text()?).map_err(|why| value.error(why))
        }
        _ => Err(part.error("Models take texts, images and PDFs: leave this part out.")),
    }
}
