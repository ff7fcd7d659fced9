//! The features for approvers: pages of pending actions, deadlines, quorums, and the audit of
//! decisions.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::event::InputEvent;
use loopwright_core::log::{Due, InMemoryStore, InputReceipt, LogEntry, PostedInput};
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{ActionOptions, Approval, DecisionKind};
use loopwright_core::{
    AgentBuilder, Environment, GenericAgent, Principal, SessionStore, SystemEnvironment,
};
use loopwright_host::{AgentRejection, AgentSetup};
use loopwright_patterns::PiPattern;
use loopwright_server::{Caller, Server, router};
use serde_json::{Value, json};

use crate::api::Api;
use crate::inbox;

/// Returns a server of this store, whose sessions call `pay` with these options.
fn paying(store: &Arc<dyn SessionStore>, options: ActionOptions) -> Api {
    let agent = move |_: &AgentSetup| -> Result<AgentBuilder, AgentRejection> {
        let model = ScriptedModel::new([]).reply_with(|request| match request.messages.len() {
            1 => Script::calls([("c1", "pay", json!({}))]),
            _ => Script::text("Done."),
        });
        let pay = TestTool::new("pay")
            .spec(|spec| spec.approval(Approval::Always).action_options(options.clone()));
        Ok(GenericAgent::builder(model, PiPattern).tool(pay))
    };
    let server = Server::builder(store.clone()).agent("paying", agent).build().unwrap();
    Api::serving(store.clone(), server)
}

async fn asks(api: &Api) -> (String, Value) {
    let id = api.session(json!({})).await;
    api.say(&id, "Pay.").await;
    api.run(&id, None).await;
    let action = api.get(&format!("/api/sessions/{id}/actions")).await["actions"][0].clone();
    (id, action)
}

/// Returns a client who may decide the actions of all sessions, including actions for treasurers.
fn approver(api: &Api, name: &str) -> Api {
    api.as_caller(Caller::new(Principal::new(name)).role("approver").role("treasurer"))
}

fn path(id: &str) -> String {
    format!("/api/sessions/{id}/actions/c1")
}

/// C243: Pending actions and decisions are listed over HTTP in pages and with filters.
#[tokio::test(start_paused = true)]
async fn lists_have_pages_and_filters() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = paying(&store, ActionOptions::new().role("treasurer").description("Pays."));
    for _ in 0..3 {
        asks(&api).await;
    }
    let all = api.get("/api/actions").await;
    assert_eq!(all["next"], Value::Null);
    let all = all["actions"].as_array().unwrap().clone();
    assert_eq!((all.len(), &all[0]["terms"]["description"]), (3, &json!("Pays.")));
    let (mut paged, mut next) = (Vec::new(), Some(String::new()));
    while let Some(after) = next {
        let page = api.get(&format!("/api/actions?limit=2{after}")).await;
        paged.extend(page["actions"].as_array().unwrap().clone());
        next = page["next"].as_str().map(|next| format!("&after={next}"));
    }
    assert_eq!(paged, all);
    for (filter, count) in
        [("role=treasurer", 3), ("role=clerk", 0), ("tool=pay", 3), ("tool=other", 0)]
    {
        let listed = api.get(&format!("/api/actions?{filter}")).await;
        assert_eq!(listed["actions"].as_array().unwrap().len(), count, "{filter}");
    }
    for wrong in [
        "/api/actions?limit=0",
        "/api/actions?after=x",
        "/api/audit?limit=1001",
        "/api/audit?until=9007199254740992",
    ] {
        let (status, refused) = api.call("GET", wrong, None).await;
        assert_eq!((status, &refused["error"]["kind"]), (400, &json!("bad_request")), "{wrong}");
    }

    for (action, user) in all.iter().zip(["Ann", "Bob", "Ann"]) {
        let id = action["session"].as_str().unwrap();
        let body = json!({ "digest": action["digest"], "decision": "deny", "reason": "no" });
        assert_eq!(approver(&api, user).post(&path(id), body).await.0, 200);
    }
    let audit = api.get("/api/audit").await;
    let audit = audit["decisions"].as_array().unwrap();
    let record = &audit[0];
    assert_eq!(audit.len(), 3);
    assert_eq!((&record["tool"], &record["call"]), (&json!("pay"), &json!("c1")));
    assert_eq!((&record["decision"], &record["reason"]), (&json!("deny"), &json!("no")));
    assert_eq!(record["source"], "http from 10.0.0.1");
    assert_eq!(record["digest"], all[0]["digest"]);
    for client in [api.as_user("Ann"), approver(&api, "Ann")] {
        let own = client.get("/api/audit").await["decisions"].as_array().unwrap().clone();
        assert_eq!((own.len(), own.iter().all(|record| record["by"] == "Ann")), (2, true));
    }
    assert_eq!(api.as_user("Eve").get("/api/audit").await["decisions"], json!([]));
    let of_ann = api.get("/api/audit?by=Ann").await;
    assert_eq!(of_ann["decisions"].as_array().unwrap().len(), 2);
    let time = record["time"].as_u64().unwrap();
    let earlier = api.get(&format!("/api/audit?until={time}&since=1")).await;
    assert!(earlier["decisions"].as_array().unwrap().len() < 3);
    let first = api.get("/api/audit?limit=2").await;
    let next = first["next"].as_str().unwrap();
    let second = api.get(&format!("/api/audit?limit=2&after={next}")).await;
    assert_eq!((second["decisions"].as_array().unwrap().len(), &second["next"]), (1, &Value::Null));
    let id = record["session"].as_str().unwrap();
    let of_session = api.get(&format!("/api/audit?session={id}")).await;
    assert_eq!(of_session["decisions"], json!([record]));
}

/// C295: A decision records the action, its digest, the author, the time and the origin. Decisions
/// in a deleted session can be read by their authors, by `admin` and by the operator.
#[tokio::test(start_paused = true)]
async fn decisions_in_deleted_sessions_are_listed() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = paying(&store, ActionOptions::new().role("treasurer"));
    let owner = api.as_user("olga");
    let (id, action) = asks(&owner).await;
    let body = json!({ "digest": action["digest"], "decision": "approve" });
    assert_eq!(approver(&api, "tom").post(&path(&id), body).await.0, 200);
    let before = owner.get("/api/audit").await["decisions"].clone();
    let record = &before[0];
    assert_eq!((&record["by"], &record["decision"]), (&json!("tom"), &json!("approve")));
    assert_eq!((&record["digest"], &record["tool"]), (&action["digest"], &json!("pay")));
    assert_eq!(record["source"], "http from 10.0.0.1");
    assert!(record["time"].as_u64().unwrap() >= action["since"].as_u64().unwrap());
    assert_eq!(owner.call("DELETE", &format!("/api/sessions/{id}"), None).await.0, 204);
    let named =
        |name: &str, role: &str| api.as_caller(Caller::new(Principal::new(name)).role(role));
    for (client, sees) in [
        (&api, true),
        (&named("eve", "admin"), true),
        (&approver(&api, "tom"), true),
        (&named("eve", "reader"), false),
        (&owner, false),
    ] {
        let listed = client.get("/api/audit").await["decisions"].clone();
        assert_eq!(listed, if sees { before.clone() } else { json!([]) });
    }
}

/// C295: The operator's decisions name the operator on a server that has other users.
#[tokio::test(start_paused = true)]
async fn decisions_of_the_operator_name_it_among_users() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let tom = Caller::new(Principal::new("tom"));
    let alone = inbox::paying(&store, |builder| builder.token("a-token-of-32-characters-0123456"));
    let users = inbox::paying(&store, |builder| {
        builder.token("a-token-of-32-characters-0123456").user("another-token-of-tom", tom)
    });
    for (server, by) in [(alone, Value::Null), (users, json!("operator"))] {
        let api = Api::serving(store.clone(), server);
        let (id, action) = asks(&api).await;
        let body = json!({ "digest": action["digest"], "decision": "approve" });
        assert_eq!(api.post(&path(&id), body).await.0, 200);
        let audit = api.get(&format!("/api/audit?session={id}")).await;
        assert_eq!(audit["decisions"][0]["by"], by);
    }
}

/// C243: A decision that the action does not allow, or with too little information for its quorum,
/// is refused with status 400. A decision after the deadline is refused with status 409.
#[tokio::test(start_paused = true)]
async fn decisions_are_checked_against_the_terms() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let options = ActionOptions::new().decisions([DecisionKind::Approve]).quorum(2);
    let api = paying(&store, options);
    let (id, action) = asks(&api).await;
    let digest = &action["digest"];
    let approve = json!({ "digest": digest, "decision": "approve" });
    let edit = json!({ "digest": digest, "decision": "approve_with", "arguments": {} });
    for (client, body) in [(&approver(&api, "Ann"), edit), (&api, approve.clone())] {
        let (status, refused) = client.post(&path(&id), body).await;
        assert_eq!((status, &refused["error"]["path"]), (400, &json!("/decision")), "{refused}");
    }
    let mut events = api.events(&id, None).await;
    for (user, status) in [("Ann", 200), ("Ann", 400), ("Bob", 200)] {
        let answer = approver(&api, user).post(&path(&id), approve.clone()).await;
        assert_eq!(answer.0, status, "{answer:?}");
    }
    let frame = events.until("external_action_approval").await.pop().unwrap();
    assert_eq!(frame.data["approval"]["by"], "Ann");
    events.until("agent_end").await;
    let audit = api.get("/api/audit").await["decisions"].clone();
    let approvals: Vec<_> =
        audit.as_array().unwrap().iter().map(|r| (&r["by"], &r["resolved"])).collect();
    assert_eq!(approvals, [(&json!("Bob"), &json!(true)), (&json!("Ann"), &json!(false))]);
}

/// C244: A server that starts takes the defaults of actions whose deadlines passed while no process
/// had their sessions open.
#[tokio::test]
async fn a_server_takes_the_defaults_that_are_due() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let options = || ActionOptions::new().deadline(Duration::from_secs(3_600));
    let api = paying(&store, options());
    let (id, _) = asks(&api).await;
    let mut entries = store.read(&id, 0).await.unwrap();
    // The process was killed while the call was pending, and the deadline has passed since.
    for entry in &mut entries {
        if let LogEntry::CallAwaiting { terms, .. } = entry {
            Arc::make_mut(terms).deadline = Some(1);
        }
    }
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    store.open(&id).await.unwrap().append(0, entries.into()).await.unwrap();
    let next = paying(&store, options());
    next.run_due().await;
    let audit = next.get("/api/audit").await["decisions"].clone();
    assert_eq!((&audit[0]["by"], &audit[0]["decision"]), (&json!("system"), &json!("deny")));
    let messages = next.get(&format!("/api/sessions/{id}/messages")).await["messages"].clone();
    let last = messages.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["parts"][0]["text"], "Done.", "the run went on");
}

/// C477: A server that adopts sessions without settings does their due work; any other leaves them
/// alone. `router` alone is enough.
#[tokio::test(start_paused = true)]
async fn a_session_made_without_the_server_is_woken() {
    for adopts in [true, false] {
        let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
        let replies = || {
            ScriptedModel::new([]).reply_with(|request| match request.messages.len() {
                1 => Script::calls([("c1", "pay", json!({}))]),
                _ => Script::text("Done."),
            })
        };
        let options = ActionOptions::new().deadline(Duration::from_secs(3_600));
        let pay = TestTool::new("pay")
            .spec(|spec| spec.approval(Approval::Always).action_options(options.clone()));
        let agent =
            || GenericAgent::builder(replies(), PiPattern).tool(pay.clone()).build().unwrap();
        let handle = agent().open(&store, "own").await.unwrap();
        handle.prompt("Pay.").await.unwrap();
        handle.close().await;
        let mut entries = store.read("own", 0).await.unwrap();
        for entry in &mut entries {
            if let LogEntry::CallAwaiting { terms, .. } = entry {
                Arc::make_mut(terms).deadline = Some(1);
            }
        }
        let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
        store.open("own").await.unwrap().append(0, entries.into()).await.unwrap();
        let mut server = Server::builder(store.clone()).agent("paying", agent());
        if adopts {
            server = server.adopt_sessions();
        }
        let _routes = router(server.build().unwrap());
        tokio::time::sleep(Duration::from_secs(90)).await;
        let session = store.session("own").await.unwrap();
        let is_due = session.due_at(SystemEnvironment.now()).is_some();
        assert_eq!(is_due, !adopts, "{session:?}");
    }
}

/// C273: A server carries out a decision that a killed process has logged and not acted on.
#[tokio::test]
async fn a_server_carries_out_a_decision_that_was_not_acted_on() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = paying(&store, ActionOptions::new());
    let (id, action) = asks(&api).await;
    let mut entries = store.read(&id, 0).await.unwrap();
    let decided = json!({
        "type": "decided", "input": "yes", "call": "c1", "decision": "approve", "time": 7,
        "by": "ann", "digest": action["digest"],
    });
    entries.push(serde_json::from_value(decided).unwrap());
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    store.open(&id).await.unwrap().append(0, entries.into()).await.unwrap();
    assert_eq!(store.session(&id).await.unwrap().due, Some(Due::Decision));
    let next = paying(&store, ActionOptions::new());
    next.run_due().await;
    let entries = store.read(&id, 0).await.unwrap();
    let started = |entry: &&LogEntry| matches!(entry, LogEntry::CallStarted { .. });
    assert_eq!(entries.iter().filter(started).count(), 1);
    assert_eq!(store.session(&id).await.unwrap().due, None);
}

/// C244 C273: A server looks for work repeatedly, and finds work that came after its start.
#[tokio::test(start_paused = true)]
async fn a_server_looks_for_work_once_a_minute() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let first = paying(&store, ActionOptions::new());
    let ids = [asks(&first).await.0, asks(&first).await.0];
    drop(first);
    let server = paying(&store, ActionOptions::new());
    let sweeps = server.clone();
    let sweeping = tokio::spawn(async move { sweeps.server.keep_running_due().await });
    for (n, id) in ids.iter().enumerate() {
        while store.in_use(id).await.unwrap() == Some(true) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(130)).await; // it has looked, and found nothing
        let input = PostedInput::new("f", InputEvent::FollowUp("x".into())).unwrap();
        assert_eq!(store.post(id, &input).await, Ok(None), "{n}");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(store.post(id, &input).await, Ok(Some(InputReceipt::Accepted)), "{n}");
    }
    sweeping.abort();
}
