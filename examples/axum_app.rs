//! An agent in your own axum app: one route streams its events, the others are nested routes.
//!
//! `cargo run --example axum_app`
//!
//! It listens on a free port, sends requests to itself, and ends. `router` has live sessions, a web
//! page and more. `sse` streams the events of any session. Both need the feature `server`, and
//! leave authentication to the app's layers.

use std::error::Error;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use loopwright::GenericAgent;
use loopwright::log::InMemoryStore;
use loopwright::patterns::PiPattern;
use loopwright::providers::Offline;
use loopwright::server::{Server, ToPublic, router, sse};
use tokio::net::TcpListener;

/// Streams the run of one request. Without `public`, the frames also contain arguments and costs.
async fn ask(State(agent): State<GenericAgent>, question: String) -> Response {
    let Ok(handle) = agent.session().await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    match handle.prompt_stream(question).await {
        Ok(events) => sse(events.public()).into_response(),
        Err(error) => (StatusCode::CONFLICT, error.to_string()).into_response(),
    }
}

async fn send(request: Request<Full<Bytes>>) -> Result<String, Box<dyn Error>> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let body = client.request(request).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.into())?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = GenericAgent::builder(Offline::new(), PiPattern).build()?;
    let server = Server::builder(InMemoryStore::new()).agent("helper", agent.clone()).build()?;
    let app =
        Router::new().route("/ask", post(ask)).with_state(agent).nest("/agent", router(server));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async { axum::serve(listener, app).await });

    let ask = Request::post(format!("http://{address}/ask")).body("Hello".into())?;
    for line in send(ask).await?.lines().filter(|line| line.starts_with("event: ")) {
        println!("{line}");
    }
    let list = Request::get(format!("http://{address}/agent/api/agents")).body(Full::default())?;
    println!("{}", send(list).await?);
    serving.abort();
    Ok(())
}
