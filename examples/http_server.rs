//! A server with two agents: sessions over HTTP, with all checks of `serve`.
//!
//! `cargo run --example http_server`
//!
//! It listens on a free port, sends a request to itself, and ends. It needs the feature `server`.
//! `axum_app` mounts the same routes in your own app.

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use loopwright::log::InMemoryStore;
use loopwright::patterns::PiPattern;
use loopwright::providers::Offline;
use loopwright::server::{Server, serve};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, SessionStore};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let helper = GenericAgent::builder(Offline::new(), PiPattern).build()?;
    let model = ScriptedModel::new([]).default_reply(Script::text("Nine sheep."));
    let shepherd = GenericAgent::builder(model, PiPattern).build()?;
    let store = InMemoryStore::new(); // `Sqlite`, to keep the sessions
    let server = Server::builder(store.clone())
        .agent("helper", helper) // the agent of requests that name none
        .agent("shepherd", shepherd)
        .build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, server, async { drop(stopped.await) }));

    let body = json!({"message": "How many sheep are there?", "agent": "shepherd", "workDir": "."});
    let request = Request::post(format!("http://{address}/api/agent-chat"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await?;
    println!("{}", response.status());
    let frames = response.into_body().collect().await?.to_bytes();
    print!("{}", String::from_utf8(frames.into())?);
    println!("{} sessions are stored", store.sessions().await?.len());

    drop((client, stop)); // the server ends when all runs have ended
    serving.await??;
    println!("The server has ended.");
    Ok(())
}
