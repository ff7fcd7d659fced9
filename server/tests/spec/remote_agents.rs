//! [`RemoteAgent`] with a server of loopwright at the other end: the user of the one agent decides
//! what the other one needs.

use loopwright_core::event::{Decision, ExternalAction, Provided, RunStatus};
use loopwright_core::log::{InMemory, InMemoryStore};
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Approval, AskUser};
use loopwright_core::{AgentHandle, GenericAgent, RunContext, Tool as _};
use loopwright_patterns::PiPattern;
use loopwright_server::{RemoteAgent, Server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A server with an agent that sells, and asks.
struct Shop {
    address: String,
    sell: TestTool,
}

impl Shop {
    async fn open(replies: impl IntoIterator<Item = Script>) -> Shop {
        let sell = TestTool::new("sell").spec(|spec| spec.needs_approval(Approval::Always));
        let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
            .tool(sell.clone())
            .tool(AskUser::new())
            .build();
        let server = Server::builder(InMemoryStore::new()).agent("shop", agent.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = server.build().unwrap();
        tokio::spawn(loopwright_server::serve(listener, server, std::future::pending()));
        Shop { address, sell }
    }

    /// Opens the session of a customer in this memory, who sends the shop a message if there is
    /// one.
    async fn customer(&self, memory: &InMemory, message: Option<&str>) -> AgentHandle {
        let remote = RemoteAgent::connect(&self.address, None).await.unwrap();
        assert_eq!(&*remote.spec().name, "shop");
        let call = |text| Script::calls([("c", "shop", json!({ "message": text }))]);
        let model =
            ScriptedModel::new(message.map(call).into_iter().chain([Script::text("Well.")]));
        let agent = GenericAgent::builder(model, PiPattern).tool(remote).auto_all();
        let cx = RunContext::new().session("s").memory(memory.clone());
        agent.build().unwrap().run(cx).await.unwrap().0
    }
}

async fn ask(customer: &AgentHandle) -> ExternalAction {
    let outcome = customer.prompt("Ask the shop.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction, "{outcome:?}");
    customer.pending().await.unwrap().remove(0)
}

async fn answer(customer: &AgentHandle, action: ExternalAction, answer: Value) {
    let decision = Decision::Provide(Provided::Input(answer));
    customer.resolve(action.call, action.digest, decision).await.unwrap();
    customer.wait_for_idle().await;
}

async fn result(customer: &AgentHandle) -> String {
    let state = customer.state().await.unwrap();
    state.messages.iter().find(|message| message.as_tool_result().is_some()).unwrap().text()
}

fn sells() -> Script {
    Script::calls([("s", "sell", json!({ "what": "sheep" }))])
}

/// C378: what a remote agent needs an approval for is done only if the user allows it.
#[tokio::test]
async fn the_user_approves_what_a_remote_agent_does() {
    for (decision, calls, reply) in [("approve", 1, "Sold."), ("deny", 0, "Not sold.")] {
        let shop = Shop::open([sells(), Script::text(reply)]).await;
        let customer = shop.customer(&InMemory::new(), Some("A sheep!")).await;
        let action = ask(&customer).await;
        assert_eq!(action.question().unwrap().question, "shop: sell {\"what\":\"sheep\"}");
        assert_eq!(shop.sell.ran(), 0);
        answer(&customer, action, json!(decision)).await;
        assert_eq!((shop.sell.ran(), &*result(&customer).await), (calls, reply));
    }
}

/// C378: the questions of a remote agent are answered one after the other, also by a new process.
#[tokio::test]
async fn a_new_process_answers_a_remote_agent() {
    let asks = |text: &str| {
        let question = json!({ "question": text, "options": ["north", "south"] });
        Script::calls([("q", "ask_user", question)])
    };
    let shop = Shop::open([asks("Which field?"), sells(), Script::text("Sold.")]).await;
    let memory = InMemory::new();
    ask(&shop.customer(&memory, Some("A sheep!")).await).await;
    for (question, reply) in
        [("shop: Which field?", "south"), ("shop: sell {\"what\":\"sheep\"}", "approve")]
    {
        let customer = shop.customer(&memory, None).await;
        let action = customer.pending().await.unwrap().remove(0);
        assert_eq!(action.question().unwrap().question, question);
        answer(&customer, action, json!(reply)).await;
    }
    let customer = shop.customer(&memory, None).await;
    assert_eq!((shop.sell.ran(), &*result(&customer).await), (1, "Sold."));
}
