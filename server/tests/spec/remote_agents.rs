//! [`RemoteAgent`] with a loopwright server as the remote agent: the user of the local agent
//! decides for the remote one.

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
        let sell = TestTool::new("sell").spec(|spec| spec.approval(Approval::Always));
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

    /// Opens the session of a customer in this memory. Sends the shop a message if there is one.
    async fn customer(&self, memory: &InMemory, message: Option<&str>) -> AgentHandle {
        let remote = RemoteAgent::connect(&self.address, None).await.unwrap();
        assert_eq!(&*remote.spec().name, "shop");
        let call = |text| Script::calls([("c", "shop", json!({ "message": text }))]);
        let model =
            ScriptedModel::new(message.map(call).into_iter().chain([Script::text("Well.")]));
        let agent = GenericAgent::builder(model, PiPattern).tool(remote).approve_all();
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
    customer.resolve(&action, decision).await.unwrap();
    customer.wait_for_idle().await;
}

async fn result(customer: &AgentHandle) -> String {
    let state = customer.state().await.unwrap();
    state.messages.iter().find(|message| message.as_tool_result().is_some()).unwrap().text()
}

fn sells() -> Script {
    Script::calls([("s", "sell", json!({ "what": "sheep" }))])
}

/// C378: A remote agent's call that needs an approval runs only if the user allows it.
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

/// C378: The questions of a remote agent are answered one after the other, even by a new process.
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

/// C378: the same call needs a decision each time.
#[tokio::test]
async fn equal_actions_are_decided_one_by_one() {
    let shop = Shop::open([sells(), sells(), Script::text("Sold at last.")]).await;
    let customer = shop.customer(&InMemory::new(), Some("A sheep!")).await;
    let action = ask(&customer).await;
    answer(&customer, action, json!("deny")).await;
    assert_eq!(shop.sell.ran(), 0);
    let action = customer.pending().await.unwrap().remove(0);
    answer(&customer, action, json!("approve")).await;
    assert_eq!((shop.sell.ran(), &*result(&customer).await), (1, "Sold at last."));
}

/// C378: actions of one task are decided one after the other.
#[tokio::test]
async fn two_pending_actions_are_two_questions() {
    let call = |id, what| (id, "sell", json!({ "what": what }));
    let both = Script::calls([call("a", "sheep"), call("b", "dog")]);
    let shop = Shop::open([both, Script::text("Sold one.")]).await;
    let customer = shop.customer(&InMemory::new(), Some("A sheep, and the dog!")).await;
    let action = ask(&customer).await;
    answer(&customer, action, json!("approve")).await;
    let action = customer.pending().await.unwrap().remove(0);
    assert_eq!(action.question().unwrap().question, "shop: sell {\"what\":\"dog\"}");
    answer(&customer, action, json!("deny")).await;
    assert_eq!((shop.sell.ran(), &*result(&customer).await), (1, "Sold one."));
}

/// C378: If somebody else has decided meanwhile, the call continues with the result.
#[tokio::test]
async fn a_decision_that_comes_too_late_changes_nothing() {
    let shop = Shop::open([sells(), Script::text("Not sold.")]).await;
    let customer = shop.customer(&InMemory::new(), Some("A sheep!")).await;
    let action = ask(&customer).await;
    let remote = &action.request.as_ref().unwrap().data["remote"];
    let data = json!({ "call": remote["call"], "digest": remote["digest"], "decision": "deny" });
    let message = json!({
        "messageId": "other", "taskId": remote["task"], "role": "ROLE_USER",
        "parts": [{ "data": data }],
    });
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message },
    });
    let request = reqwest::Client::new().post(format!("{}/a2a/shop", shop.address));
    let request = request.header("a2a-version", "1.0").json(&body);
    let response: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(response["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    answer(&customer, action, json!("approve")).await;
    assert_eq!((shop.sell.ran(), &*result(&customer).await), (0, "Not sold."));
}

/// C378: A decision that only the users of the remote agent can take fails the call. Without a
/// user, so does an approval, while the model answers questions.
#[tokio::test]
async fn what_no_question_can_decide_is_left_to_the_remote_agent() {
    let shop = Shop::open([sells()]).await;
    let remote = RemoteAgent::connect(&shop.address, None).await.unwrap().no_questions();
    let call = Script::calls([("c", "shop", json!({ "message": "A sheep!" }))]);
    let model = ScriptedModel::new([call, Script::text("Well.")]);
    let agent = GenericAgent::builder(model, PiPattern).tool(remote).approve_all();
    let customer = agent.build().unwrap().session().await.unwrap();
    customer.prompt("Ask the shop.").await.unwrap();
    assert!(result(&customer).await.contains("only its own users"));

    let question = json!({ "question": "Which field?" });
    let shop =
        Shop::open([Script::calls([("q", "ask_user", question)]), Script::text("The north.")]);
    let shop = shop.await;
    let remote = RemoteAgent::connect(&shop.address, None).await.unwrap().no_questions();
    let model = ScriptedModel::new([]).reply_with(|request| {
        let last = request.messages.last().unwrap().text();
        let task = last.split("`task`: ").nth(1);
        match (request.messages.len(), task) {
            (1, _) => Script::calls([("c", "shop", json!({ "message": "A sheep!" }))]),
            (_, Some(task)) => {
                Script::calls([("d", "shop", json!({ "message": "North.", "task": task }))])
            }
            _ => Script::text(&last),
        }
    });
    let agent = GenericAgent::builder(model, PiPattern).tool(remote).approve_all();
    let customer = agent.build().unwrap().session().await.unwrap();
    customer.prompt("Ask the shop.").await.unwrap();
    let state = customer.state().await.unwrap();
    assert_eq!(state.messages.last().unwrap().text(), "The north.");
}
