//! Access rights: owners, roles and the policy of the host.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use axum::http::{Request, header};
use loopwright_core::limits::Budget;
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::Usage;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, Memory, Principal, SessionStore};
use loopwright_host::OperatorRules;
use loopwright_memory::Sqlite;
use loopwright_patterns::PiPattern;
use loopwright_server::{Access, AccessPolicy, Caller, Server, ServerBuilder};
use serde_json::{Value, json};

use crate::api::{Api, retry_after};

fn writes() -> Script {
    Script::calls([("w", "write_file", json!({ "path": "new.txt", "content": "x" }))])
}

fn caller(name: &str, role: &str) -> Caller {
    let caller = Caller::new(Principal::new(name));
    if role.is_empty() { caller } else { caller.role(role) }
}

/// Creates a session of Ann with a pending action. Returns its id and the action.
async fn waiting(api: &Api) -> (String, Value) {
    let ann = api.as_user("ann");
    let id = ann.session(json!({})).await;
    ann.say(&id, "Write.").await;
    ann.run(&id, None).await;
    let action = ann.get(&format!("/api/sessions/{id}/actions")).await["actions"][0].clone();
    (id, action)
}

/// Sends a request of each kind and returns the statuses. None of them changes the session: allowed
/// requests are refused as invalid.
async fn statuses(api: &Api, id: &str) -> [u16; 3] {
    let reads = ["", "/messages", "/agent", "/history?before=3", "/events?after=999999"];
    let mut read = Vec::new();
    for route in reads {
        read.push(api.call("GET", &format!("/api/sessions/{id}{route}"), None).await.0);
    }
    let read_events = read.pop().unwrap();
    assert!([404, 409].contains(&read_events), "{read_events}"); // after the end, if it may be read
    read.push(if read_events == 409 { 200 } else { read_events });
    let changes =
        ["prompt", "steer", "follow-up", "continue", "signal", "abort", "compact", "fork"];
    let mut changed = Vec::new();
    for route in changes {
        let body = json!({ "message": " ", "id": "", "instructions": 1 });
        changed.push(api.post(&format!("/api/sessions/{id}/{route}"), body).await.0);
    }
    let path = format!("/api/sessions/{id}");
    changed.push(api.call("PATCH", &path, Some(json!({ "agent": "x" }))).await.0);
    let decision = json!({ "digest": "other", "decision": "approve" });
    let decided = api.post(&format!("/api/sessions/{id}/actions/w"), decision).await.0;
    for all in [&read, &changed] {
        assert!(all.iter().all(|status| *status == all[0]), "{read:?} {changed:?}");
    }
    [read[0], changed[0], decided]
}

/// C310: The metrics cover the sessions of all users. They are for the operator, `admin` and
/// `reader`, or for the callers that the host's policy allows.
#[tokio::test]
async fn metrics_are_not_for_every_user() {
    /// A policy that lets only the monitoring read the metrics.
    struct Monitored;
    #[async_trait]
    impl AccessPolicy for Monitored {
        async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool {
            matches!(access, Access::Metrics) && caller.has_role("monitoring")
        }
    }
    let api = Api::new([]);
    let other = Api::with(Arc::new(InMemoryStore::new()), [], |server| server.policy(Monitored));
    for (role, by_default, by_policy) in [
        ("", 403, 403),
        ("approver", 403, 403),
        ("reader", 200, 403),
        ("admin", 200, 403),
        ("monitoring", 403, 200),
    ] {
        for (api, expected) in [(&api, by_default), (&other, by_policy)] {
            let (status, body) =
                api.as_caller(caller("bob", role)).call("GET", "/metrics", None).await;
            assert_eq!(status, expected, "{role}: {body}");
            let shown = body.to_string().contains("loopwright_runs_active");
            assert_eq!(shown, status == 200, "{role}: {body}");
        }
    }
    for api in [api, other] {
        assert_eq!(api.call("GET", "/metrics", None).await.0, 200, "the operator");
    }
}

/// C227: A session belongs to its owner. For others it does not exist, unless a role lets them read
/// it or decide its actions. Only the owner, `admin` and the operator change or delete it.
#[tokio::test]
async fn a_session_is_its_owners() {
    let api = Api::new([writes()]);
    let (id, action) = waiting(&api).await;
    let own = api.session(json!({})).await;
    for (client, [read, change, decide], listed, actions) in [
        (api.as_user("ann"), [200, 400, 409], 1, 1),
        (api.as_user("bob"), [404, 404, 404], 0, 0),
        (api.as_caller(caller("bob", "reader")), [200, 403, 403], 2, 1),
        (api.as_caller(caller("bob", "approver")), [404, 404, 409], 0, 1),
        (api.as_caller(caller("bob", "admin")), [200, 400, 409], 2, 1),
        (api.clone(), [200, 400, 409], 2, 1),
    ] {
        assert_eq!(statuses(&client, &id).await, [read, change, decide]);
        let sessions = client.get("/api/sessions").await;
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), listed, "{sessions}");
        let pending = client.get("/api/actions").await;
        assert_eq!(pending["actions"].as_array().unwrap().len(), actions, "{pending}");
        let of_session = client.call("GET", &format!("/api/sessions/{id}/actions"), None).await;
        assert_eq!(of_session.0, if actions == 0 { 404 } else { 200 });
        let found = client.get("/api/search?q=write").await;
        assert_eq!(found["hits"].as_array().unwrap().len(), listed.min(1), "{found}");
        let preview = format!("/api/sessions/{id}/actions/w/preview");
        let preview = client.call("GET", &preview, None).await;
        assert_eq!(preview.0, if actions == 0 { 404 } else { 200 });
        let follow = json!({ "follow": [{ "feed": "f", "session": id }] });
        let mut stream = client.stream("/api/events", follow).await;
        assert_eq!(stream.next().await.unwrap().event, "stream");
        let first = stream.next().await.unwrap().event;
        assert_eq!(first, if read == 200 { "open" } else { "error" });
    }
    // A session that the operator creates is the operator's.
    assert_eq!(statuses(&api.as_user("ann"), &own).await, [404, 404, 404]);
    let unknown = api.as_user("bob").call("GET", "/api/sessions/nothing", None).await;
    let hidden = api.as_user("bob").call("GET", &format!("/api/sessions/{own}"), None).await;
    assert_eq!(unknown.1.to_string().replace("nothing", &own), hidden.1.to_string());

    // An approver decides by name, and the owner deletes.
    let approve = json!({ "digest": action["digest"], "decision": "deny", "by": "ann" });
    let path = format!("/api/sessions/{id}/actions/w");
    let approver = api.as_caller(caller("carl", "approver"));
    assert_eq!(approver.post(&path, approve.clone()).await.0, 200);
    let late = api.as_user("ann").post(&path, approve).await;
    assert!(late.1.to_string().contains("by carl"), "{late:?}");
    for (name, status) in [("bob", 404), ("ann", 204)] {
        let client = api.as_user(name);
        let mut deleted = 409;
        while deleted == 409 {
            // The run that the decision has resumed may be in progress.
            client.post(&format!("/api/sessions/{id}/abort"), json!({})).await;
            deleted = client.call("DELETE", &format!("/api/sessions/{id}"), None).await.0;
        }
        assert_eq!(deleted, status, "{name}");
    }
}

/// C227: The host's policy replaces the rules, even for new sessions.
#[tokio::test]
async fn the_policy_of_the_host_decides() {
    struct Team;

    #[async_trait]
    impl AccessPolicy for Team {
        async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool {
            match access {
                Access::Create(settings) => settings.model.is_none(),
                Access::Delete(_) => false,
                _ => caller.has_role("team"),
            }
        }
    }

    let store = Arc::new(InMemoryStore::new());
    let api = Api::with(store, [Script::text("Hi.")], |builder| builder.policy(Team));
    let (ann, bob) = (api.as_caller(caller("ann", "team")), api.as_caller(caller("bob", "team")));
    let (status, refused) = ann.post("/api/sessions", json!({ "model": "other/model" })).await;
    assert_eq!((status, &refused["error"]["kind"]), (403, &json!("forbidden")), "{refused}");
    let id = ann.session(json!({})).await;
    bob.say(&id, "Hello").await;
    bob.run(&id, None).await;
    assert_eq!(bob.get("/api/sessions").await["sessions"][0]["owner"], "ann");
    let (status, refused) = ann.call("DELETE", &format!("/api/sessions/{id}"), None).await;
    assert_eq!(status, 403, "{refused}");
    assert_eq!(api.call("DELETE", &format!("/api/sessions/{id}"), None).await.0, 204);
}

/// C230: a principal whose budget for the day is used up sends no more; the operator does.
#[tokio::test]
async fn a_daily_budget_ends_the_prompts_of_a_principal() {
    let store = Arc::new(InMemoryStore::new());
    let mut usage = Usage::default();
    (usage.input, usage.output) = (9, 1);
    let replies = (0..4).map(|_| Script::text("Hi.").usage(usage));
    let daily = Budget::default().tokens(20);
    let api = Api::with(store, replies, |builder| builder.daily_budget(daily));
    let say = json!({ "message": "Hello" });
    let ask = async |client: &Api, id: &str, route: &str| {
        client.post(&format!("/api/sessions/{id}/{route}"), say.clone()).await
    };
    let (ann, bob) = (api.as_user("ann"), api.as_user("bob"));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = ann.session(json!({})).await;
        assert_eq!(ask(&ann, &id, "prompt").await.0, 202);
        ann.run(&id, None).await;
        ids.push(id);
    }
    for route in ["prompt", "steer", "follow-up", "continue", "compact"] {
        let (status, refused) = ask(&ann, &ids[0], route).await;
        assert_eq!((status, &refused["error"]["kind"]), (429, &json!("too_many")), "{route}");
        assert!(refused.to_string().contains("`ann` is used up: 20 of 20 tokens"), "{refused}");
    }
    assert_eq!(ask(&ann, &ids[0], "abort").await.0, 202);
    let own = bob.session(json!({})).await;
    assert_eq!(ask(&bob, &own, "prompt").await.0, 202);
    assert_eq!(ask(&api, &ids[0], "prompt").await.0, 202, "the operator is not limited");
}

/// C428: A client whose budget for the day is used up is told to wait until midnight, UTC. Other
/// clients that are refused for now wait briefly.
#[tokio::test]
async fn a_refusal_says_when_to_retry() {
    const DAY: u64 = 24 * 60 * 60;
    let mut usage = Usage::default();
    usage.input = 20;
    let daily = Budget::default().tokens(20);
    let replies = [Script::text("Hi.").usage(usage)];
    let store = Arc::new(InMemoryStore::new());
    let ann = Api::with(store, replies, |builder| builder.daily_budget(daily)).as_user("ann");
    let id = ann.session(json!({})).await;
    ann.say(&id, "Hello").await;
    ann.run(&id, None).await;
    let own = json!({ "message": "Hello" });
    let chat = json!({ "model": "coding", "messages": [{ "role": "user", "content": "Hello" }] });
    let prompt = format!("/api/sessions/{id}/prompt");
    for (path, body) in [(&*prompt, own), ("/v1/chat/completions", chat)] {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let before = now_in_seconds();
        let response = ann.send(request.body(body.to_string().into()).unwrap()).await;
        assert_eq!(response.status(), 429, "{path}");
        let wait = retry_after(response.headers());
        let (first, last) = (before + wait - 2, now_in_seconds() + wait);
        assert!(last / DAY * DAY >= first, "{path}: midnight is not within {first}..{last}");
    }
}

fn now_in_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// C284: A principal without a name, which a layer of the host has inserted by mistake, is not the
/// operator. The request is refused, for a caller and for a bare principal.
#[tokio::test]
async fn an_empty_principal_is_refused() {
    let api = Api::new([]);
    let own = api.session(json!({})).await;
    for nobody in [caller("", ""), caller("", "admin")] {
        let nobody = api.as_caller(nobody);
        for (method, path) in [
            ("GET", format!("/api/sessions/{own}")),
            ("DELETE", format!("/api/sessions/{own}")),
            ("GET", "/api/sessions".into()),
            ("GET", "/api/actions".into()),
        ] {
            let (status, refused) = nobody.call(method, &path, None).await;
            let kind = &refused["error"]["kind"];
            assert_eq!((status, kind), (403, &json!("forbidden")), "{method} {path}: {refused}");
        }
        assert_eq!(nobody.post("/api/sessions", json!({})).await.0, 403);
    }
}

/// C284: A server with users lets them approve nothing for good, unless its rules allow it.
#[tokio::test]
async fn a_server_with_users_has_strict_rules() {
    let create = async |set: fn(ServerBuilder) -> ServerBuilder| {
        let store = Arc::new(InMemoryStore::new());
        let api = Api::with(store, [], set);
        api.post("/api/sessions", json!({ "approve": ["write_file"] })).await.0
    };
    const TOKEN: &str = "correct-horse-battery";
    assert_eq!(create(|builder| builder.token(TOKEN)).await, 201, "the operator alone");
    assert_eq!(create(|builder| builder.user(TOKEN, caller("ann", ""))).await, 403);
    let ruled = |builder: ServerBuilder| {
        builder.user(TOKEN, caller("ann", "")).rules(OperatorRules::open())
    };
    assert_eq!(create(ruled).await, 201);
}

/// C283: A decision whose call is not pending is refused and not sent. The process that has the
/// session open would take it once the call is pending, without a check of roles.
#[tokio::test(start_paused = true)]
async fn a_decision_of_a_call_that_is_not_pending_is_never_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap());
    let api = Api::over(store.clone(), []);
    let id = api.as_user("ann").session(json!({})).await;
    drop(api);
    let api = Api::over(store.clone(), []);
    let _owner = opened(&store, &id).await;
    let decision = json!({ "digest": "d", "decision": "approve", "id": "early" });
    for client in [api.as_user("ann"), api.as_caller(caller("bob", "reader"))] {
        let path = format!("/api/sessions/{id}/actions/w");
        let (status, refused) = client.post(&path, decision.clone()).await;
        let kind = &refused["error"]["kind"];
        assert_eq!((status, kind), (404, &json!("not_found")), "{refused}");
    }
    assert_eq!(store.session(&id).await.unwrap().unread, 0, "nothing was posted");
}

/// C319: A decision about an action that the policy has not seen is refused and not sent, although
/// its call is pending. A call that is suspended later has other terms.
#[tokio::test(start_paused = true)]
async fn a_decision_of_an_action_that_the_policy_has_not_seen_is_never_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap());
    let api = Api::over(store.clone(), [writes()]);
    let (id, _) = waiting(&api).await;
    drop(api);
    let api = Api::over(store.clone(), []);
    let _owner = opened(&store, &id).await;
    let decision = json!({ "digest": "of-a-later-action", "decision": "approve" });
    let path = format!("/api/sessions/{id}/actions/w");
    let (status, refused) = api.as_user("ann").post(&path, decision).await;
    assert!(status == 409 && refused.to_string().contains("digest"), "{refused}");
    assert_eq!(store.session(&id).await.unwrap().unread, 0, "nothing was posted");
}

/// Opens a session as another process does, once the server that had it has left.
async fn opened(store: &Sqlite, id: &str) -> Arc<dyn Memory> {
    loop {
        match store.open(id).await {
            Ok(memory) => return memory,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

/// C283: A decision that is sent twice with its id is accepted and changes nothing.
#[tokio::test]
async fn a_repeated_decision_is_accepted() {
    let api = Api::new([writes(), Script::text("Denied.")]);
    let (id, action) = waiting(&api).await;
    let ann = api.as_user("ann");
    let path = format!("/api/sessions/{id}/actions/w");
    let mut decision = json!({ "digest": action["digest"], "decision": "deny", "id": "d" });
    for _ in 0..2 {
        let (status, sent) = ann.post(&path, decision.clone()).await;
        assert_eq!((status, &sent["input"]), (200, &json!("d")), "{sent}");
    }
    decision["id"] = json!("other");
    let (status, refused) = ann.post(&path, decision).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused.to_string().contains("already resolved with `deny` by ann"), "{refused}");
}

/// Returns replies that use ten tokens each.
fn costly(replies: usize) -> Vec<Script> {
    let mut usage = Usage::default();
    (usage.input, usage.output) = (9, 1);
    (0..replies).map(|_| Script::text("Hi.").usage(usage)).collect()
}

/// C288: sessions that were deleted still count on their day.
#[tokio::test]
async fn deleted_sessions_count_for_the_daily_budget() {
    let daily = Budget::default().tokens(20);
    let store = Arc::new(InMemoryStore::new());
    let api = Api::with(store, costly(3), |builder| builder.daily_budget(daily));
    let ann = api.as_user("ann");
    for expected in [202, 202, 429] {
        let id = ann.session(json!({})).await;
        let prompt = json!({ "message": "Hello" });
        let sent = ann.post(&format!("/api/sessions/{id}/prompt"), prompt).await;
        assert_eq!(sent.0, expected, "{sent:?}");
        if expected == 202 {
            ann.run(&id, None).await;
            while ann.call("DELETE", &format!("/api/sessions/{id}"), None).await.0 == 409 {
                tokio::task::yield_now().await; // the run is about to end
            }
        }
    }
}

/// C288: Requests to an agent with a model of the server count. Requests with the client's own key,
/// and the operator's requests, do not.
#[tokio::test]
async fn chat_requests_count_for_the_daily_budget() {
    let chat = json!({ "message": "Hello", "workDir": "." });
    let daily = Budget::default().tokens(20);
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let agent = GenericAgent::builder(ScriptedModel::new(costly(5)), PiPattern).build().unwrap();
    let server = Server::builder(store.clone()).agent("agent", agent).daily_budget(daily);
    let api = Api::serving(store, server.build().unwrap());
    let ann = api.as_user("ann");
    assert_eq!(ann.post("/api/agent-chat", chat.clone()).await.0, 200);
    // The client of the second request reads nothing and disconnects when the run has ended. Its
    // usage is added after that.
    let unread = ann.stream("/api/agent-chat", chat.clone()).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(unread);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let (status, refused) = ann.post("/api/agent-chat", chat.clone()).await;
    assert_eq!(status, 429, "{refused}");
    assert!(refused.to_string().contains("`ann` is used up: 20 of 20 tokens"), "{refused}");
    assert_eq!(api.post("/api/agent-chat", chat.clone()).await.0, 200, "the operator's");
    let store = Arc::new(InMemoryStore::new());
    let api = Api::with(store, costly(3), |builder| builder.daily_budget(daily));
    for _ in 0..3 {
        let mut chat = chat.clone();
        chat["llmConfig"] = json!({ "apiKey": "k", "model": "m" });
        assert_eq!(api.as_user("ann").post("/api/agent-chat", chat).await.0, 200);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}
