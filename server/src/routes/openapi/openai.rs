//! The operations of the OpenAI API.

use loopwright_protocols::openai::{
    ChatCompletion, ChatCompletionRequest, ChatFrame, Response, ResponseEvent, ResponsesRequest,
};

use super::document::Document;
use super::operations::{BUSY, DRAINING};
use crate::routes::protocols::openai::{Model, ModelPage};

const BAD_BODY: (u16, &str) = (400, "The body is not valid; `param` says where.");
const BAD_TOKEN: (u16, &str) = (401, "The token is missing or wrong.");
const NOT_ALLOWED: (u16, &str) = (403, "The caller may not use this agent.");
const NO_AGENT: (u16, &str) = (404, "There is no agent of this name.");
const FAILED: (u16, &str) =
    (500, "The run failed, or the server; `x-should-retry` is `false` if a run has started.");

/// Adds the operations to the document.
pub(super) fn describe(document: &mut Document) {
    let errors = [BAD_BODY, BAD_TOKEN, NOT_ALLOWED, NO_AGENT, BUSY, FAILED, DRAINING];
    document
        .operation(
            "post",
            "/v1/chat/completions",
            "Answers a conversation with an agent, as the Chat Completions API of OpenAI.",
        )
        .request::<ChatCompletionRequest>()
        .response::<ChatCompletion>(200, "The answer; its chunks and `[DONE]` if `stream` is true.")
        .event_stream::<ChatFrame>("", &[])
        .ended_by("[DONE]")
        .errors(&errors)
        .add();
    document
        .operation(
            "post",
            "/v1/responses",
            "Answers a conversation with an agent, as the Responses API of OpenAI.",
        )
        .request::<ResponsesRequest>()
        .response::<Response>(200, "The response; its events if `stream` is true.")
        .event_stream::<ResponseEvent>("", &[])
        .errors(&errors)
        .add();
    document
        .operation("get", "/v1/models", "Returns the agents, as models of the OpenAI API.")
        .response::<ModelPage>(200, "The agents.")
        .errors(&[BAD_TOKEN])
        .add();
    document
        .operation("get", "/v1/models/{model}", "Returns an agent, as a model of the OpenAI API.")
        .response::<Model>(200, "The agent.")
        .errors(&[BAD_TOKEN, NO_AGENT])
        .add();
}
