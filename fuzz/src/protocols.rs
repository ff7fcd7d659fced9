//! Messages from clients of the protocols, and any session as the messages to them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use loopwright_core::TraceContext;
use loopwright_core::event::{Envelope, ExternalAction};
use loopwright_core::log::SessionLog;
use loopwright_core::tool::{ActionRequest, Question};
use loopwright_mcp::server::{AgentCall, RequestState, decode_elicit_result};
use loopwright_mcp::{ServerConfig, elicited_question, sampling_request, tool_output, tool_spec};
use loopwright_protocols::a2a_client::{RemoteAction, RemoteAnswer, RemoteCard};
use loopwright_protocols::openai::{
    ChatCompletionRequest, ChatStream, ResponseHead, ResponseStream, ResponsesRequest,
};
use loopwright_protocols::{Awaited, Encode, Progress, ShownRuns, a2a, acp, ag_ui, ai_sdk, openai};
use serde_json::{Value, json};

use crate::entries::entries;

/// Panics if a decoder violates an invariant with this body. It must return inputs or an error, and
/// the same ones each time.
pub fn check_decoders(body: &[u8]) {
    let twice = || format!("{:?}", ag_ui::RunRequest::decode(body));
    assert_eq!(twice(), twice());
    let twice = || format!("{:?}", ai_sdk::ChatRequest::decode(body));
    assert_eq!(twice(), twice());
    if let Ok(request) = ChatCompletionRequest::from_json(body) {
        let _ = request.decode();
    }
    if let Ok(request) = ResponsesRequest::from_json(body) {
        let _ = (request.echo(), request.decode());
    }
    if let Ok(request) = a2a::Request::decode(body)
        && let a2a::Call::SendMessage { message, .. } = request.call
    {
        let _ = message.inputs(&[]);
    }
    let _ = (RemoteCard::decode(body), acp::decode(body));
    if let Ok(RemoteAnswer::InputRequired { task, actions, .. }) = RemoteAnswer::decode(body) {
        for (action, question) in actions.iter().filter_map(|it| RemoteAction::ask("a", &task, it))
        {
            let answer = question.read("1").unwrap_or(Value::Null);
            assert!(action.decide("m", &answer)["params"]["message"]["parts"].is_array());
        }
    }
    let text = String::from_utf8_lossy(body);
    acp::diffs(Path::new("/srv"), &text);
    if let Some(task) = a2a::TaskId::parse(&text) {
        assert_eq!(a2a::TaskId::parse(&task.to_string()), Some(task));
    }
    let _ = loopwright_protocols::data_url(&text);
    if let Some(context) = TraceContext::parse(&text, Some(&text)) {
        assert!(TraceContext::parse(&context.traceparent(), None).is_some());
    }
    if let Ok(state) = RequestState::decode(&text) {
        let written = serde_json::to_string(&state).unwrap_or_default();
        assert_eq!(RequestState::decode(&written), Ok(state));
    }
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return };
    let question = Question::text("?");
    let _ = acp::read_form(&question, &value);
    let request = serde_json::to_value(question).map(|asked| ActionRequest::new("question", asked));
    let call = ExternalAction::new("c", "pay", value.clone(), "d");
    let question = call.clone().request(request.ok().map(Arc::new));
    for action in [call, question] {
        let _ = decode_elicit_result(&action, &value);
        let permission = acp::Permission::new(&action, Path::new("/srv"), Vec::new(), true);
        let _ = permission.map(|permission| permission.answer(&value));
    }
    if let Some(arguments) = value.as_object() {
        let _ = AgentCall::decode(arguments);
    }
    let _ = (tool_spec("s", &value, false), tool_spec("s", &value, true));
    let _ = (tool_output(&value), ServerConfig::read("s", &value));
    let _ = (elicited_question("s", &value), sampling_request(&value));
}

/// Panics if a protocol cannot show the events of the log that these bytes describe.
pub fn check_folds(bytes: &[u8]) {
    let events = SessionLog::events("s", &entries(bytes));
    let awaited = |event: &Envelope| ShownRuns::of(vec![Awaited::Run(event.run_id)]);
    let Some(last) = events.last() else { return };
    check_encoder(ag_ui::Encoder::new("t", "r", awaited(last)), &events);
    check_encoder(ag_ui::Encoder::new("t", "r", ShownRuns::up_to(last.run_id)), &events);
    check_encoder(ai_sdk::Encoder::new(ShownRuns::up_to(last.run_id), Value::Null), &events);
    check_encoder(a2a::Encoder::new(json!(1), a2a::TaskId::new("m", "c"), awaited(last)), &events);
    ai_sdk::ui_messages(&events);
    a2a::tasks("c", &events);
    let (mut updates, mut replayed) =
        (acp::SessionUpdates::new("/w"), acp::SessionUpdates::new("/w"));
    let head = || ResponseHead { id: "i".into(), model: "m".into(), created: 1 };
    let mut chat = ChatStream::new(head(), false, true);
    let (mut to, mut frames) = (VecDeque::new(), VecDeque::new());
    let echo = openai::Echo::default();
    let mut response = ResponseStream::new(head(), echo, false, true);
    for event in &events {
        updates.fold(&event.event);
        replayed.replay(&event.event);
        chat.encode(event, &mut frames);
        response.encode(event, &mut to);
    }
    let _ = openai::ChatCompletion::of(frames);
}

/// Panics if an encoder ends twice, or if one of its events is not JSON.
fn check_encoder<E: Encode<Event: serde::Serialize>>(mut encoder: E, events: &[Envelope]) {
    let mut to = VecDeque::new();
    let ended =
        events.iter().any(|event| matches!(encoder.encode(event, &mut to), Progress::Finish));
    match ended {
        true => encoder.finish(&[], &mut to),
        false => encoder.cut_off("kind", "why", &mut to),
    }
    encoder.restate(events, &mut to);
    for event in &to {
        serde_json::to_string(event).expect("JSON");
    }
}
