//! Connections over pipes, with a paused clock.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::routing::get;
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

/// The beginning of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The time for which the stream of events of these tests is silent.
const SILENCE: Duration = Duration::from_secs(50);

// Paths that are not part of the API.
const LARGE: &str = "/large";
const TICKS: &str = "/ticks";
const SMALL: &str = "/small";
// Paths of the API. Here the second one is answered slowly.
const HEALTH: &str = "/healthz";
const READINESS: &str = "/readyz";

/// Returns routes with a large response, a small one, and a stream with occasional events.
fn routes() -> Router {
    let ticks = || {
        futures::stream::unfold((), async |()| {
            tokio::time::sleep(SILENCE).await;
            Some((Ok::<_, Infallible>(Bytes::from_static(b"tick")), ()))
        })
    };
    Router::new()
        .route(LARGE, get(async || vec![b'x'; 1_000_000]))
        .route(TICKS, get(async move || Body::from_stream(ticks())))
        .route(SMALL, get(async || "small"))
        .route(HEALTH, get(async || "alive"))
        .route(READINESS, get(async move || Body::from_stream(ticks())))
}

/// Serves a connection. Returns its other end, and a task that resolves to the time of its close.
fn connect(quota: &Quota, drain: &Drain, scope: Scope) -> (DuplexStream, JoinHandle<Instant>) {
    let (ours, theirs) = duplex(1024 * 1024);
    let connection = Connection {
        peer: ([127, 0, 0, 1], 1).into(),
        routes: routes(),
        quota: quota.clone(),
        health_quota: Quota::new(1, 1),
        proxies: Arc::default(),
        drain: drain.clone(),
        metrics: Arc::default(),
        refused: RefusedConnections::default(),
        scope,
    };
    let closed = tokio::spawn(async move {
        connection.serve(ours).await;
        Instant::now()
    });
    (theirs, closed)
}

async fn client(stream: DuplexStream) -> SendRequest<Body> {
    let io = TokioIo::new(stream);
    let mut http = http2::Builder::new(TokioExecutor::new());
    let (client, connection) = http.initial_stream_window_size(65_535).handshake(io).await.unwrap();
    tokio::spawn(connection);
    client
}

fn request(path: &str) -> Request<Body> {
    Request::get(format!("http://localhost{path}")).body(Body::empty()).unwrap()
}

/// C204: A client that sends nothing, half of a head, or no request is disconnected.
#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for sent in [b"", &b"GE"[..], b"GET / HTTP/1.1\r\n", &PREFACE[..10], PREFACE, &settings] {
        let (mut stream, closed) = connect(&Quota::new(9, 9), &Drain::default(), Scope::All);
        let start = Instant::now();
        stream.write_all(sent).await.unwrap();
        let seconds = (closed.await.unwrap() - start).as_secs();
        assert!((10..=20).contains(&seconds), "{seconds} s after {sent:?}");
    }
}

/// C309: A connection for the server's health has one request, only for the health, and little
/// time.
#[tokio::test(start_paused = true)]
async fn a_connection_for_the_health_has_one_request() {
    for (path, status, end) in
        [(HEALTH, "200", "alive"), (SMALL, "429", "of this address are open: close one.\"}}")]
    {
        let (mut stream, closed) = connect(&Quota::new(0, 0), &Drain::default(), Scope::Health);
        let start = Instant::now();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.repeat(2).as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{response}");
        assert!(response.ends_with(end) && response.matches("HTTP/1.1").count() == 1, "{response}");
        assert!(closed.await.unwrap() - start < Duration::from_secs(1));

        let (stream, closed) = connect(&Quota::new(0, 0), &Drain::default(), Scope::Health);
        let mut client = client(stream).await;
        let response = client.send_request(request(path)).await.unwrap();
        assert_eq!(response.status().as_str(), status);
        drop(response);
        closed.await.unwrap();
        assert!(client.send_request(request(path)).await.is_err());
    }
    for sent in [b"", &b"GET /healthz HTTP/1.1\r\n"[..], PREFACE] {
        let (mut stream, closed) = connect(&Quota::new(0, 0), &Drain::default(), Scope::Health);
        let start = Instant::now();
        stream.write_all(sent).await.unwrap();
        let seconds = (closed.await.unwrap() - start).as_secs();
        assert!((2..=4).contains(&seconds), "{seconds} s after {sent:?}");
    }
}

/// C204: A stream of events with a reader stays open, however long it is silent.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_stays_open() {
    let quota = Quota::new(9, 9);
    let (stream, _) = connect(&quota, &Drain::default(), Scope::All);
    let mut client = client(stream).await;
    let mut ticks = client.send_request(request(TICKS)).await.unwrap().into_data_stream();
    for _ in 0..5 {
        assert_eq!(ticks.next().await.unwrap().unwrap(), "tick");
    }
    drop(ticks);
    while quota.in_use() > 0 {
        quota.released().await;
    }
}

/// C204: A response that its client does not read is ended. Other responses of the connection
/// continue.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_taken_is_ended() {
    let (quota, start) = (Quota::new(9, 9), Instant::now());
    let (stream, _) = connect(&quota, &Drain::default(), Scope::All);
    let mut client = client(stream).await;
    let mut ticks = client.send_request(request(TICKS)).await.unwrap().into_data_stream();
    let mut large = client.send_request(request(LARGE)).await.unwrap().into_body();
    assert_eq!(quota.in_use(), 2);
    while quota.in_use() == 2 {
        quota.released().await;
    }
    assert!((30..=60).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let mut length = 0;
    let end = loop {
        match large.frame().await {
            Some(Ok(frame)) => length += frame.into_data().unwrap().len(),
            end => break end,
        }
    };
    assert!(end.is_some_and(|end| end.is_err()), "it is no complete response");
    assert!(length < 200_000, "{length} bytes were kept for the client");
    assert_eq!(ticks.next().await.unwrap().unwrap(), "tick");
    let response = client.send_request(request(LARGE)).await.unwrap();
    assert_eq!(response.headers()["content-length"], "1000000");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 1_000_000);
}

/// C204: Requests in progress count like connections.
#[tokio::test(start_paused = true)]
async fn requests_in_progress_are_bounded() {
    let quota = Quota::new(2, 9);
    let (stream, _) = connect(&quota, &Drain::default(), Scope::All);
    let mut client = client(stream).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(client.send_request(request(TICKS)).await.unwrap());
    }
    assert_eq!(client.send_request(request(SMALL)).await.unwrap().status(), 429);
    // C309: Requests for the server's health are excepted. They have a limit of their own.
    let health = client.send_request(request(READINESS)).await.unwrap();
    assert_eq!(health.status(), 200);
    assert_eq!(client.send_request(request(HEALTH)).await.unwrap().status(), 429);
    drop(health);
    while client.send_request(request(HEALTH)).await.unwrap().status() != 200 {
        tokio::task::yield_now().await;
    }
    streams.pop();
    quota.released().await;
    assert_eq!(client.send_request(request(SMALL)).await.unwrap().status(), 200);
}

/// C204: A client may not open more concurrent requests than the server has announced.
#[tokio::test(start_paused = true)]
async fn a_connection_has_so_many_requests_at_a_time() {
    let quota = Quota::new(1000, 1000);
    let (stream, _) = connect(&quota, &Drain::default(), Scope::All);
    let mut client = client(stream).await;
    client.send_request(request(SMALL)).await.unwrap(); // the settings have arrived
    let mut streams = Vec::new();
    for _ in 0..MAX_STREAMS {
        streams.push(client.send_request(request(TICKS)).await.unwrap());
    }
    let mut more = pin!(client.send_request(request(SMALL)));
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut more).await.is_err());
    streams.pop();
    assert_eq!(more.await.unwrap().status(), 200);
}

/// C204: The head of a request is bounded.
#[tokio::test(start_paused = true)]
async fn large_heads_are_refused() {
    let (stream, _) = connect(&Quota::new(9, 9), &Drain::default(), Scope::All);
    let mut client = client(stream).await;
    let mut many = request(SMALL);
    for number in 0..=MAX_HEADERS {
        let name = format!("x-{number}").parse::<axum::http::HeaderName>().unwrap();
        many.headers_mut().insert(name, "1".parse().unwrap());
    }
    assert_eq!(client.send_request(many).await.unwrap().status(), 431);
    let mut large = request(SMALL);
    large.headers_mut().insert("x", "x".repeat(100_000).parse().unwrap());
    assert!(client.send_request(large).await.is_ok_and(|refused| refused.status() == 431));
    assert_eq!(client.send_request(request(SMALL)).await.unwrap().status(), 200);
}

/// C204: A shutdown lets requests in progress end, and accepts no more on their connection.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_connections_after_their_requests() {
    let drain = Drain::default();
    let (stream, closed) = connect(&Quota::new(9, 9), &drain, Scope::All);
    let mut client = client(stream).await;
    let mut ticks = client.send_request(request(TICKS)).await.unwrap().into_data_stream();
    drain.start();
    assert_eq!(ticks.next().await.unwrap().unwrap(), "tick");
    assert!(client.send_request(request(SMALL)).await.is_err());
    drop(ticks);
    closed.await.unwrap();

    let (stream, closed) = connect(&Quota::new(9, 9), &drain, Scope::One);
    let mut client = self::client(stream).await;
    let response = client.send_request(request(SMALL)).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "small");
    let start = Instant::now();
    closed.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "it had its one request");
}

/// C204: The same port accepts both versions.
#[tokio::test(start_paused = true)]
async fn a_connection_of_http_1_is_served() {
    let (mut stream, _) = connect(&Quota::new(9, 9), &Drain::default(), Scope::All);
    let head = "GET /small HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("small"), "{response}");
}
