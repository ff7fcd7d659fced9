//! Messages that are sent at certain times.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::event::InputEvent;
use loopwright_core::log::{InMemoryStore, LogEntry, MemoryError, Schedule, SessionInfo};
use loopwright_core::testing::Script;
use loopwright_core::{
    Environment, Memory, Principal, SessionStore, SystemEnvironment, async_trait,
};
use loopwright_server::Caller;
use serde_json::{Value, json};

use crate::api::Api;

fn due_now(session: &str, id: &str) -> Schedule {
    Schedule::once(session, id, 1, InputEvent::UserRequest("How many?".into()))
}

async fn answers(api: &Api, id: &str) -> usize {
    let page = api.get(&format!("/api/sessions/{id}/messages")).await;
    page["messages"].as_array().unwrap().iter().filter(|it| it["role"] == "assistant").count()
}

/// C530: a server sends the message of a schedule within a second, once, to a session that is open
/// and to one that is not, however many servers share the store.
#[tokio::test(start_paused = true)]
async fn servers_carry_schedules_out() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = Api::over(store.clone(), ["Nine.", "Ten."].map(Script::text));
    let id = api.session(json!({})).await;
    let other = Api::over(store.clone(), ["Nine.", "Ten."].map(Script::text));
    let schedules = store.schedules().unwrap();
    schedules.put(&due_now(&id, "first")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(answers(&api, &id).await, 1);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(store.in_use(&id).await, Ok(Some(false)));
    schedules.put(&due_now(&id, "second")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(answers(&other, &id).await, 2);
    let log = store.read(&id, 0).await.unwrap();
    let queued = log.iter().filter(|entry| matches!(entry, LogEntry::Queued { .. })).count();
    assert_eq!(queued, 2);
    assert!(schedules.of_session(&id).await.unwrap().is_empty());
}

/// C531: a client puts, reads, lists and removes schedules.
#[tokio::test]
async fn clients_put_read_and_remove_schedules() {
    let api = Api::new([]);
    let id = api.session(json!({})).await;
    let at = |name: &str| format!("/api/sessions/{id}/schedules/{name}");
    let now = SystemEnvironment.now();
    let daily = json!({ "message": "Report.", "cron": "0 9 * * *", "time_zone": "Europe/Berlin" });
    let (status, put) = api.call("PUT", &at("daily"), Some(daily.clone())).await;
    assert_eq!(status, 200, "{put}");
    let next = put["next"].as_u64().unwrap();
    assert!(next > now && next <= now + 25 * 3600 * 1000, "{put}");
    assert_eq!((&put["cron"], &put["time_zone"]), (&daily["cron"], &daily["time_zone"]));
    assert_eq!(api.get(&at("daily")).await, put);
    let once = json!({ "message": "Once.", "time": (now + 1_000_000) as f64 });
    assert_eq!(api.call("PUT", &at("once"), Some(once.clone())).await.0, 200);
    assert_eq!(api.call("PUT", &at("once"), Some(once)).await.0, 200, "it replaces it");

    let all = api.get(&format!("/api/sessions/{id}/schedules")).await;
    assert_eq!(all["schedules"].as_array().unwrap().len(), 2);
    let first = api.get("/api/schedules?limit=1").await;
    assert_eq!(first["schedules"].as_array().unwrap().len(), 1);
    let after = first["next"].as_str().unwrap();
    let second = api.get(&format!("/api/schedules?limit=1&after={after}")).await;
    assert_eq!(second["next"], Value::Null);
    assert_ne!(first["schedules"][0]["id"], second["schedules"][0]["id"]);

    assert_eq!(api.call("DELETE", &at("daily"), None).await.0, 204);
    assert_eq!(api.call("DELETE", &at("daily"), None).await.0, 404);
    assert_eq!(api.call("GET", &at("daily"), None).await.0, 404);
}

/// C531: a schedule that cannot be carried out is refused, with the field and what to do.
#[tokio::test]
async fn a_schedule_that_cannot_be_carried_out_is_refused() {
    let api = Api::new([]);
    let id = api.session(json!({})).await;
    let path = format!("/api/sessions/{id}/schedules/a");
    for (body, field, says) in [
        (json!({ "cron": "nine" }), "/cron", "an example is `0 9 * * MON-FRI`"),
        (json!({ "cron": "* * * * * *" }), "/cron", "once a minute"),
        (json!({ "cron": "0 0 30 2 *" }), "/cron", "`0 0 30 2 *`"),
        (json!({ "cron": "0 9 * * *", "time_zone": "Moon/Base" }), "/time_zone", "Moon/Base"),
        (json!({ "time": 1 }), "/time", "choose a later one"),
        (json!({ "time": 1, "cron": "0 9 * * *" }), "/time", "either a `time`"),
        (json!({}), "/time", "either a `time`"),
        (json!({ "time": 9e14, "time_zone": "Europe/Berlin" }), "/time_zone", "needs a cron"),
        (json!({ "time": 9e14, "message": " " }), "/message", "is empty"),
    ] {
        let mut body = body;
        if body.get("message").is_none() {
            body["message"] = "Report.".into();
        }
        if let Some(time) = body.get("time").and_then(Value::as_f64) {
            body["time"] = (time as u64).into();
        }
        let (status, refused) = api.call("PUT", &path, Some(body.clone())).await;
        assert_eq!((status, &refused["error"]["path"]), (400, &json!(field)), "{body} {refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(says), "{refused}");
    }
    let missing = api.call(
        "PUT",
        "/api/sessions/none/schedules/a",
        Some(json!({
            "message": "Report.", "cron": "0 9 * * *",
        })),
    );
    assert_eq!(missing.await.0, 404);
}

/// C531: schedules belong to the owner of their session.
#[tokio::test]
async fn a_schedule_belongs_to_the_owner_of_its_session() {
    let api = Api::new([]);
    let (ann, bob) = (api.as_user("ann"), api.as_user("bob"));
    let reader = api.as_caller(Caller::new(Principal::new("rob")).role("reader"));
    let id = ann.session(json!({})).await;
    let path = format!("/api/sessions/{id}/schedules/a");
    let body = || Some(json!({ "message": "Report.", "cron": "0 9 * * *" }));
    let (status, put) = ann.call("PUT", &path, body()).await;
    assert_eq!(status, 200, "{put}");
    let schedule = api.store.schedules().unwrap().of_session(&id).await.unwrap().pop().unwrap();
    let InputEvent::UserRequest(prompt) = &schedule.event else { panic!("{schedule:?}") };
    assert_eq!(prompt.extensions.get(), Some(&Principal::new("ann")));

    let count =
        async |api: &Api| api.get("/api/schedules").await["schedules"].as_array().unwrap().len();
    assert_eq!((count(&ann).await, count(&bob).await, count(&reader).await), (1, 0, 1));
    for (caller, status) in [(&bob, 404), (&reader, 403)] {
        assert_eq!(caller.call("PUT", &path, body()).await.0, status);
        assert_eq!(caller.call("DELETE", &path, None).await.0, status);
    }
    assert_eq!(bob.call("GET", &path, None).await.0, 404);
    assert_eq!(reader.call("GET", &path, None).await.0, 200);
}

/// C531: a user has at most 200 schedules, and can replace them.
#[tokio::test]
async fn a_user_leaves_room_for_others() {
    let api = Api::new([]);
    let (ann, bob) = (api.as_user("ann"), api.as_user("bob"));
    let body = || Some(json!({ "message": "Report.", "cron": "0 9 * * *" }));
    for _ in 0..2 {
        let id = ann.session(json!({})).await;
        for n in 0..100 {
            let event = InputEvent::UserRequest("Report.".into());
            let schedule = Schedule::once(&*id, format!("s{n}"), 9_000_000_000_000, event);
            api.store.schedules().unwrap().put(&schedule).await.unwrap();
        }
    }
    let at = |id: &str| format!("/api/sessions/{id}/schedules/s1");
    let third = ann.session(json!({})).await;
    let (status, refused) = ann.call("PUT", &at(&third), body()).await;
    assert_eq!(status, 409, "{refused}");
    let first = ann.get("/api/schedules?limit=1").await["schedules"][0]["session"].clone();
    assert_eq!(ann.call("PUT", &at(first.as_str().unwrap()), body()).await.0, 200);
    assert_eq!(bob.call("PUT", &at(&bob.session(json!({})).await), body()).await.0, 200);
}

/// A store without schedules.
struct Plain(InMemoryStore);

#[async_trait]
impl SessionStore for Plain {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        self.0.open(session).await
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.0.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.0.delete(session).await
    }
}

/// C531: a store without schedules is named as the reason.
#[tokio::test]
async fn a_store_without_schedules_is_named_as_the_reason() {
    let api = Api::over(Arc::new(Plain(InMemoryStore::new())), []);
    let (status, refused) = api.call("GET", "/api/schedules", None).await;
    assert_eq!(status, 404);
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("The store has no schedules: use `Sqlite`"), "{why}");
}
