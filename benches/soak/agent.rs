//! The agent of the benchmark: a model without a network, and a tool that can steer its own run.
//! The model calls the tool for a number of turns.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use futures::{StreamExt, stream};
use loopwright_core::limits::Budget;
use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, BoxStream, ChatRequest, ModelEvent, ModelInfo};
use loopwright_core::tool::{Effect, ToolContext};
use loopwright_core::{AgentHandle, ChatModel, GenericAgent, ToolError, tool_fn};
use loopwright_patterns::PiPattern;

const TEXT: &str = "what a model says in a few words, or in more of them. ";

/// A model that calls the tool until the conversation has `turns - 1` replies, and then answers.
struct Calls {
    info: ModelInfo,
    turns: usize,
}

impl ChatModel for Calls {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let replies = request.messages.iter().filter(|m| m.as_assistant().is_some()).count();
        let mut events = block(0, BlockKind::Text, &[TEXT; 4]);
        let mut stop = StopReason::Stop;
        if replies + 1 < self.turns {
            stop = StopReason::ToolCalls;
            let id = format!("call-{replies}");
            let call = BlockKind::ToolCall { id, name: "work".into() };
            events.extend(block(1, call, &["{", "}"]));
        }
        events.push(ModelEvent::Done { stop, usage: Usage::new(1_000, 100) });
        stream::iter(events).boxed()
    }
}

fn block(block: u32, kind: BlockKind, deltas: &[&str]) -> Vec<ModelEvent> {
    let delta = |delta: &&str| ModelEvent::Delta { block, delta: (*delta).to_owned() };
    let start = ModelEvent::BlockStart { block, kind };
    let end = ModelEvent::BlockEnd { block, signature: None };
    [start].into_iter().chain(deltas.iter().map(delta)).chain([end]).collect()
}

/// A request value that makes the tool steer the session of this handle, `per_call` times per call.
///
/// The session keeps the values of a request until the next one, so the handle is removed at the
/// end of the run. Otherwise the session would never end.
pub(crate) struct Steer {
    pub(crate) handle: Arc<Mutex<Option<AgentHandle>>>,
    pub(crate) per_call: usize,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Builds an agent whose runs have `turns` turns.
pub(crate) fn agent(turns: usize) -> GenericAgent {
    let work = tool_fn("work", "Works.", async |_: Nothing, cx: ToolContext| {
        if let Some(Steer { handle, per_call }) = cx.get() {
            let handle = handle.lock().unwrap().clone().unwrap();
            let steers = (0..*per_call).map(|n| handle.steer(format!("Steer {n}: {TEXT}")));
            for accepted in join_all(steers).await {
                accepted.map_err(ToolError::failed)?;
            }
        }
        Ok::<_, ToolError>(TEXT.repeat(8))
    });
    GenericAgent::builder(Calls { info: ModelInfo::new("soak/calls"), turns }, PiPattern)
        .tool(work.effect(Effect::ReadOnly))
        .limits(Budget::default().turns(u32::MAX))
        .build()
        .unwrap()
}
