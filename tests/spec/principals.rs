//! Principals: the users that a session works for, as hooks and tools see them.

use std::sync::Mutex;

use async_trait::async_trait;
use loopwright_core::SessionStore;
use loopwright_core::log::{InMemoryStore, SessionQuery};

use crate::kit::*;

type Seen = Arc<Mutex<Vec<String>>>;

/// A hook that records the principal of each request to the model, and the user message that it
/// answers.
struct Recorder(Seen);

#[async_trait]
impl Hooks for Recorder {
    async fn transform_context(
        &self,
        cx: &HookContext,
        _: &Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        let who = cx.principal().map_or("nobody", |principal| principal.as_str());
        let request = cx.request.as_ref().map_or("nothing".into(), |message| message.text());
        self.0.lock().unwrap().push(format!("{who}: {request}"));
        None
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn agent(model: ScriptedModel, seen: &Seen) -> GenericAgent {
    let who = tool_fn("who", "Returns who asks.", async |_: Nothing, cx| {
        Ok::<_, ToolError>(cx.principal().map_or("nobody".into(), |who| who.to_string()))
    });
    let builder = GenericAgent::builder(model, PiPattern).hook(Recorder(seen.clone()));
    builder.tool(who.approval(Approval::Always)).build().unwrap()
}

async fn approve(handle: &AgentHandle) {
    let pending = handle.pending().await.unwrap();
    let (call, digest) = (pending[0].call.clone(), pending[0].digest.clone());
    handle.send(ActionResult::new(call, digest, Decision::Approve)).await.unwrap();
    handle.wait_for_idle().await;
}

/// C173: hooks and tools see the principal of the request, which takes precedence over the
/// session's. Hooks also see the request, even after a decision has resumed it.
#[tokio::test(start_paused = true)]
async fn hooks_and_tools_see_the_principal_and_hooks_the_request() {
    let seen = Seen::default();
    let model = ScriptedModel::new([calls(&["who"]), Script::text("1"), Script::text("2")]);
    let agent = agent(model, &seen);
    let cx = RunContext::new().with(Principal::new("host"));
    let (handle, _events) = agent.run(cx).await.unwrap();
    handle.prompt(Prompt::from("Who am I?").with(Principal::new("ann"))).await.unwrap();
    approve(&handle).await;
    handle.prompt("And now?").await.unwrap();
    let state = handle.state().await.unwrap();
    let result = state.messages.iter().find_map(|m| m.as_tool_result()).unwrap();
    assert_eq!(result.text(), "ann");
    assert_eq!(*seen.lock().unwrap(), ["ann: Who am I?", "ann: Who am I?", "host: And now?"]);
}

/// C173: a call that is approved after a restart has the principal of its request, from the log.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_principal_of_the_request_is_that_of_the_log() {
    let seen = Seen::default();
    let model = ScriptedModel::new([calls(&["who"]), Script::text("1")]);
    let agent = agent(model, &seen);
    let memory = InMemory::new();
    let open = || RunContext::new().session("s").memory(memory.clone());
    let (handle, _events) = agent.run(open()).await.unwrap();
    handle.prompt(Prompt::from("Who am I?").with(Principal::new("ann"))).await.unwrap();
    handle.close().await;
    let (handle, _events) = agent.run(open()).await.unwrap();
    approve(&handle).await;
    let state = handle.state().await.unwrap();
    let result = state.messages.iter().find_map(|m| m.as_tool_result()).unwrap();
    assert_eq!(result.text(), "ann");
    assert_eq!(*seen.lock().unwrap(), ["ann: Who am I?", "ann: Who am I?"]);
}

/// C226: a session belongs to the principal that it was created for, whoever opens it later. So do
/// its forks.
#[tokio::test(start_paused = true)]
async fn a_session_belongs_to_who_created_it() {
    let store = InMemoryStore::new();
    let agent = agent(ScriptedModel::new([Script::text("1"), Script::text("2")]), &Seen::default());
    for owner in ["ann", "bob"].map(Principal::new) {
        let cx = RunContext::new().owner(owner).stored(&store, "s").await.unwrap();
        let (handle, _events) = agent.run(cx).await.unwrap();
        handle.prompt("Hello.").await.unwrap();
        handle.wait_for_idle().await;
        handle.close().await;
    }
    store.fork("s", None, "f").await.unwrap();
    for session in ["s", "f"] {
        let info = store.session(session).await.unwrap();
        assert_eq!(info.owner, Some(Principal::new("ann")), "{session}");
    }
    let list = async |owner: &str| {
        let query = SessionQuery::new(9).owner(Principal::new(owner));
        store.sessions_page(&query).await.unwrap().sessions.len()
    };
    assert_eq!((list("ann").await, list("bob").await), (2, 0));
}
