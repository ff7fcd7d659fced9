//! The memory of sub-agents that wait in the middle of a request. No server takes part, so all of
//! the memory is loopwright's.

use std::collections::BTreeSet;

use loopwright_core::event::InputEvent;
use loopwright_core::limits::{Budget, Limits};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{AgentEvent, GenericAgent};
use loopwright_patterns::PiPattern;

use crate::client::resident_kib;

/// Returns the memory of this process in KiB while one root has `count` sub-agents.
pub(crate) fn run(count: u64) -> u64 {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let waiting = ScriptedModel::new([]).discard_requests();
        let waiting = waiting.reply_with(|_| Script::new().hang());
        let sub_agent = GenericAgent::builder(waiting, PiPattern).build().expect("an agent");
        let calls = move || {
            let ids: Vec<String> = (0..count).map(|n| format!("c{n}")).collect();
            let task = serde_json::json!({ "task": "Add numbers until done." });
            Script::calls(ids.iter().map(|id| (&**id, "adder", task.clone())))
        };
        let model = ScriptedModel::new([]).discard_requests().reply_with(move |_| calls());
        let limits = Limits::from(Budget::default().turns(u32::MAX)).parallel_calls(count as usize);
        let agent = GenericAgent::builder(model, PiPattern)
            .limits(limits)
            .child("adder", "Adds numbers.", sub_agent)
            .build()
            .expect("an agent");
        let handle = agent.session().await.expect("a session");
        let mut events = handle.subscribe();
        let request = InputEvent::UserRequest("Let them add.".into());
        handle.send(request).await.expect("a request");
        let mut working = BTreeSet::new();
        while working.len() < count as usize {
            let event = events.next().await.expect("the sub-agents begin");
            if let AgentEvent::ToolExecutionUpdate { call, .. } = &event.event {
                working.insert(call.clone()); // its turn has begun
            }
        }
        resident_kib()
    })
}
