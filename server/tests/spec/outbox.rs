//! Reports of actions that are not lost: changes between two looks at the store, reports that a
//! killed process had not sent, and changes while no process ran.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loopwright_core::SessionStore;
use loopwright_core::event::ExternalAction;
use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_server::{ActionChange, Webhook};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::inbox::{Delivery, SECRET, asks, caller, checked, decide, paying};

/// A receiver of webhooks that accepts or refuses deliveries.
struct Receiver {
    url: String,
    accepts: Arc<AtomicBool>,
    received: mpsc::UnboundedReceiver<Delivery>,
}

impl Receiver {
    async fn start() -> Self {
        let (sent, received) = mpsc::unbounded_channel();
        let accepts = Arc::new(AtomicBool::new(true));
        let accepting = accepts.clone();
        let receive = async move |State(sent): State<mpsc::UnboundedSender<Delivery>>,
                                  headers: HeaderMap,
                                  body: Bytes| {
            sent.send((headers, String::from_utf8(body.to_vec()).unwrap())).unwrap();
            match accepting.load(Ordering::SeqCst) {
                true => StatusCode::NO_CONTENT,
                false => StatusCode::INTERNAL_SERVER_ERROR,
            }
        };
        let app: Router = Router::new().route("/hook", post(receive)).with_state(sent);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Receiver { url, accepts, received }
    }

    /// Returns the next delivery: its id, and its body.
    async fn next(&mut self) -> (String, Value) {
        checked(&self.received.recv().await.unwrap())
    }

    /// Starts a server that reports to this receiver, with this outbox.
    fn serve(&self, store: &Arc<dyn SessionStore>, outbox: &Path) -> (Api, JoinHandle<()>) {
        let secret = format!("whsec_{}", BASE64_STANDARD.encode(SECRET));
        let hook = Webhook::new(&self.url, secret).outbox(outbox);
        let server = paying(store, |builder| builder.webhook(hook));
        let reporting = server.clone();
        let reports = tokio::spawn(async move { reporting.report_actions().await });
        (Api::serving(store.clone(), server), reports)
    }
}

/// Waits until the outbox records this many accepted deliveries since it was opened.
async fn accepted(outbox: &Path, count: usize) {
    let is_recorded = || std::fs::read_to_string(outbox).unwrap().matches(r#"{"sent":"#).count();
    while is_recorded() < count {
        tokio::task::yield_now().await;
    }
}

/// Ends the reports at any point, as the end of the process does.
async fn kill(reports: JoinHandle<()>) {
    reports.abort();
    reports.await.unwrap_err();
}

/// C291: An action that another process opens and decides between two looks at the store is
/// reported with its decision. The host and the callers who may know of it receive the report.
#[tokio::test(start_paused = true)]
async fn what_is_decided_between_two_looks_is_reported() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let (sent, mut reported) = mpsc::unbounded_channel();
    let one = paying(&store, |builder| {
        builder.on_action(move |change: &ActionChange| sent.send(change.clone()).unwrap())
    });
    let reporting = one.clone();
    tokio::spawn(async move { reporting.report_actions().await });
    let one = Api::serving(store.clone(), one);
    let mut streams = Vec::new();
    for (name, role) in [("tom", "treasurer"), ("ann", ""), ("bob", "clerk")] {
        let mut stream = one.as_caller(caller(name, role)).stream_of("/api/inbox/events").await;
        assert_eq!(stream.next().await.unwrap().event, "ready");
        streams.push(stream);
    }
    let two = Api::serving(store.clone(), paying(&store, |builder| builder));
    let (id, action) = asks(&two.as_user("ann")).await;
    let decided = decide(&two.as_caller(caller("tom", "treasurer")), &id, &action).await;
    assert_eq!(decided, 200);
    let ActionChange::Resolved { session, decision, .. } = reported.recv().await.unwrap() else {
        panic!("nobody has looked while it was pending");
    };
    assert_eq!((&*session, decision.unwrap().by.as_deref()), (&*id, Some("tom")));
    for stream in &mut streams[..2] {
        let frame = stream.next().await.unwrap();
        assert_eq!((&*frame.event, &frame.data["decision"]["by"]), ("resolved", &json!("tom")));
    }
    assert!(streams[2].ready().is_none(), "bob may not know of it");
}

/// C292: A report that a killed process had not sent is sent by the next one. So are changes in
/// between: an action that was withdrawn, and a decision of any age. Accepted reports are not
/// repeated.
#[tokio::test]
async fn an_outbox_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = folder.path().join("hooks/outbox");
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let entry = |text: &str| serde_json::from_str::<LogEntry>(text).unwrap();
    let digest = ExternalAction::new("c", "pay", json!({}), "").computed_digest();
    let awaiting = format!(
        r#"{{"type":"call_awaiting","call":"c","name":"pay","arguments":{{}},"digest":"{digest}",
            "time":5}}"#
    );
    let old = store.open("old").await.unwrap();
    old.append(0, [entry(&awaiting)].into()).await.unwrap();
    let mut receiver = Receiver::start().await;
    let (api, reports) = receiver.serve(&store, &outbox);
    assert_eq!(receiver.next().await.1["action"]["session"], "old");
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (id, _) = asks(&api).await;
        assert_eq!(receiver.next().await.1["action"]["session"], json!(id));
        ids.push(id);
    }
    receiver.accepts.store(false, Ordering::SeqCst);
    let path = format!("/api/sessions/{}", ids[0]);
    assert_eq!(api.call("DELETE", &path, None).await.0, 204);
    let (unsent, first) = receiver.next().await;
    assert_eq!((&first["type"], &first["session"]), (&json!("resolved"), &json!(ids[0])));
    accepted(&outbox, 4).await;
    kill(reports).await;

    // While no process reports, a session is deleted, and a decision is read that was sent long
    // ago.
    let path = format!("/api/sessions/{}", ids[1]);
    assert_eq!(api.call("DELETE", &path, None).await.0, 204);
    api.drain(Duration::ZERO).await;
    let decided = format!(
        r#"{{"type":"decided","input":"i","call":"c","name":"pay","digest":"{digest}",
            "decision":"approve","by":"ann","time":7}}"#
    );
    old.append(1, [entry(&decided)].into()).await.unwrap();
    receiver.accepts.store(true, Ordering::SeqCst);
    let (api, reports) = receiver.serve(&store, &outbox);
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(receiver.next().await);
    }
    let of = |session: &str| received.iter().find(|(_, body)| body["session"] == *session).unwrap();
    assert_eq!(*of(&ids[0]), (unsent, first), "the same report again");
    assert_eq!(of(&ids[1]).1.get("decision"), None, "it was withdrawn");
    assert_eq!((&of("old").1["decision"]["by"], &of("old").1["since"]), (&json!("ann"), &json!(5)));

    // The third is known to be pending, and all others were accepted.
    let (last, _) = asks(&api).await;
    assert_eq!(receiver.next().await.1["action"]["session"], json!(last));
    accepted(&outbox, 4).await;
    kill(reports).await;
    let text = std::fs::read_to_string(&outbox).unwrap();
    std::fs::write(&outbox, text + r#"{"queued":{"numb"#).unwrap(); // a write that was cut off
    let (api, _reports) = receiver.serve(&store, &outbox);
    let (last, _) = asks(&api).await;
    assert_eq!(receiver.next().await.1["action"]["session"], json!(last));
}

/// C292: Of several processes with one outbox, one sends, and another takes over when it ends.
#[tokio::test]
async fn one_process_sends_what_is_in_an_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = folder.path().join("outbox");
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let mut receiver = Receiver::start().await;
    let (one, first) = receiver.serve(&store, &outbox);
    let (id, _) = asks(&one).await;
    assert_eq!(receiver.next().await.1["action"]["session"], json!(id));
    let (two, _second) = receiver.serve(&store, &outbox);
    let (id, _) = asks(&two).await;
    assert_eq!(receiver.next().await.1["action"]["session"], json!(id), "sent by the first");
    accepted(&outbox, 2).await;
    kill(first).await;
    let (id, _) = asks(&two).await;
    assert_eq!(receiver.next().await.1["action"]["session"], json!(id), "and not the others");
    assert!(receiver.received.try_recv().is_err());
}
