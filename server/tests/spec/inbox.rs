//! New and resolved actions of all sessions: the stream of the inbox, the host's function, and
//! webhooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{ActionOptions, Approval};
use loopwright_core::{AgentBuilder, GenericAgent, Principal, SessionStore};
use loopwright_host::{AgentRejection, AgentSetup};
use loopwright_memory::Sqlite;
use loopwright_patterns::PiPattern;
use loopwright_server::{ActionChange, Caller, Server, ServerBuilder, Webhook};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::api::{Api, Reader};

pub(crate) const SECRET: [u8; 32] = [7; 32];

/// Returns a server of this store, whose sessions call `pay`, which treasurers decide.
pub(crate) fn paying(
    store: &Arc<dyn SessionStore>,
    set: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Server {
    let agent = move |_: &AgentSetup| -> Result<AgentBuilder, AgentRejection> {
        let model = ScriptedModel::new([]).reply_with(|request| match request.messages.len() {
            1 => Script::calls([("c1", "pay", json!({}))]),
            _ => Script::text("Done."),
        });
        let options = ActionOptions::new().role("treasurer");
        let pay = TestTool::new("pay")
            .spec(|spec| spec.approval(Approval::Always).action_options(options.clone()));
        Ok(GenericAgent::builder(model, PiPattern).tool(pay))
    };
    set(Server::builder(store.clone()).agent("paying", agent)).build().unwrap()
}

pub(crate) async fn asks(api: &Api) -> (String, Value) {
    let id = api.session(json!({})).await;
    api.say(&id, "Pay.").await;
    api.run(&id, None).await;
    let action = api.get(&format!("/api/sessions/{id}/actions")).await["actions"][0].clone();
    (id, action)
}

pub(crate) async fn decide(api: &Api, id: &str, action: &Value) -> u16 {
    let approve = json!({ "digest": action["digest"], "decision": "approve" });
    api.post(&format!("/api/sessions/{id}/actions/c1"), approve).await.0
}

pub(crate) fn caller(name: &str, role: &str) -> Caller {
    Caller::new(Principal::new(name)).role(role)
}

async fn next(reader: &mut Reader) -> (String, Value) {
    let frame = reader.next().await.unwrap();
    (frame.event, frame.data)
}

/// C231: The stream of the inbox has the actions that the caller may see: first the pending ones,
/// then each change, even by another process. Only a caller with the role of an action decides it,
/// and needs no access to its session.
#[tokio::test]
async fn the_inbox_streams_what_the_caller_may_see() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = Sqlite::open(folder.path().join("sessions.db")).unwrap();
        Arc::new(store) as Arc<dyn SessionStore>
    };
    let serving = |store: Arc<dyn SessionStore>| {
        let server = paying(&store, |builder| builder);
        Api::serving(store, server)
    };
    let (one, two) = (serving(open()), serving(open()));
    let ann = one.as_user("ann");
    let (first, action) = asks(&ann).await;
    let treasurer = two.as_caller(caller("tom", "treasurer"));
    let mut inbox = treasurer.stream_of("/api/inbox/events").await;
    let mut others = one.as_caller(caller("bob", "clerk")).stream_of("/api/inbox/events").await;
    let (event, data) = next(&mut inbox).await;
    assert_eq!((&*event, &data["action"]["session"]), ("pending", &json!(first)), "{data}");
    assert_eq!(data["action"]["terms"]["roles"], json!(["treasurer"]));
    assert_eq!(next(&mut inbox).await.0, "ready");
    assert_eq!(next(&mut others).await.0, "ready", "nothing that the caller may not see");

    let (second, _) = asks(&ann).await;
    let (event, data) = next(&mut inbox).await;
    assert_eq!((&*event, &data["action"]["session"]), ("pending", &json!(second)), "{data}");
    let refused = decide(&ann, &first, &action).await;
    assert_eq!(refused, 403, "the owner does not have the role");
    assert_eq!(decide(&one.as_caller(caller("bob", "clerk")), &first, &action).await, 404);
    assert_eq!(decide(&treasurer, &first, &action).await, 200);
    let (event, data) = next(&mut inbox).await;
    assert_eq!((&*event, &data["session"]), ("resolved", &json!(first)), "{data}");
    assert_eq!(
        (&data["decision"]["by"], &data["decision"]["decision"]),
        (&json!("tom"), &json!("approve"))
    );
    assert_eq!(ann.call("GET", &format!("/api/sessions/{first}"), None).await.0, 200);
    assert_eq!(treasurer.call("GET", &format!("/api/sessions/{first}"), None).await.0, 404);
    assert!(others.ready().is_none());
}

pub(crate) type Delivery = (HeaderMap, String);

/// Starts a receiver of webhooks, which fails at first. Returns its address and the deliveries.
async fn receiver(failures: usize) -> (String, mpsc::UnboundedReceiver<Delivery>) {
    let (sent, received) = mpsc::unbounded_channel();
    let left = Arc::new(Mutex::new(failures));
    let receive =
        async |State((sent, left)): State<(mpsc::UnboundedSender<Delivery>, Arc<Mutex<usize>>)>,
               headers: HeaderMap,
               body: Bytes| {
            sent.send((headers, String::from_utf8(body.to_vec()).unwrap())).unwrap();
            let mut left = left.lock().unwrap();
            let fails = *left > 0;
            *left -= usize::from(fails);
            if fails { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::NO_CONTENT }
        };
    let app: Router = Router::new().route("/hook", post(receive)).with_state((sent, left));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, received)
}

/// Checks the signature of a delivery, and returns its id and its body.
pub(crate) fn checked((headers, body): &Delivery) -> (String, Value) {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
    let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).unwrap();
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    assert_eq!(header("webhook-signature"), format!("v1,{signature}"));
    (id, serde_json::from_str(body).unwrap())
}

/// C232: Webhooks and the host's function get each new and each resolved action, signed, and once
/// more after a failure. A server that starts reports pending actions and recent decisions with the
/// same ids.
#[tokio::test]
async fn webhooks_report_actions_at_least_once() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let (url, mut received) = receiver(1).await;
    let secret = format!("whsec_{}", BASE64_STANDARD.encode(SECRET));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let start = || {
        let (seen, hook) = (seen.clone(), Webhook::new(&url, &secret));
        let report = move |change: &ActionChange| seen.lock().unwrap().push(change.id());
        let server = paying(&store, |builder| builder.webhook(hook).on_action(report));
        let reporting = server.clone();
        let reports = tokio::spawn(async move { reporting.report_actions().await });
        (Api::serving(store.clone(), server), reports)
    };
    let (api, reports) = start();
    let (id, action) = asks(&api).await;
    let (pending, first) = checked(&received.recv().await.unwrap());
    assert_eq!((&first["type"], &first["action"]["session"]), (&json!("pending"), &json!(id)));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    assert_eq!(checked(&received.recv().await.unwrap()), (pending.clone(), first), "again");

    assert_eq!(decide(&api, &id, &action).await, 200);
    let (resolved, second) = checked(&received.recv().await.unwrap());
    assert_eq!(
        (&second["type"], &second["decision"]["decision"]),
        (&json!("resolved"), &json!("approve"))
    );
    let (other, _) = asks(&api).await;
    let (pending_other, _) = checked(&received.recv().await.unwrap());
    assert_eq!(*seen.lock().unwrap(), [&*pending, &*resolved, &*pending_other]);
    api.drain(Duration::from_secs(1)).await;
    reports.await.unwrap();

    let (_restarted, _reports) = start();
    let mut reported = Vec::new();
    for _ in 0..2 {
        reported.push(checked(&received.recv().await.unwrap()).0);
    }
    reported.sort();
    assert_eq!(reported, [pending_other, resolved]);
    let deleted = api.call("DELETE", &format!("/api/sessions/{other}"), None).await;
    assert_eq!(deleted.0, 204, "{deleted:?}");
    let (_, gone) = checked(&received.recv().await.unwrap());
    assert_eq!((&gone["type"], &gone["decision"]), (&json!("resolved"), &Value::Null));
}

/// A webhook without a proper secret could be forged.
#[test]
fn a_webhook_needs_an_address_and_a_secret() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let secret = format!("whsec_{}", BASE64_STANDARD.encode(SECRET));
    for (url, secret, why) in [
        ("https://example.org", "secret", "whsec_"),
        ("https://example.org", "whsec_c2hvcnQ=", "24 to 64 bytes"),
        ("example.org", &*secret, "`example.org` is no address"),
        ("file:///etc/passwd", &*secret, "no address"),
    ] {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let server = Server::builder(store.clone()).agent("agent", agent);
        let refused = server.webhook(Webhook::new(url, secret)).build().err().unwrap();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
