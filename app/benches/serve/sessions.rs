//! Stored sessions: many with a reader each, and one with many readers.

use std::net::SocketAddr;

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::client::{EVENTS, Lines, Reply, fetch, read};
use crate::process::Process;
use crate::runs::{Load, Measured, measure, model_request};

/// The number of requests that are sent at the same time before a measurement.
const CONCURRENT: usize = 100;

/// Creates sessions and returns their ids.
pub(crate) async fn create(server: &Process, sessions: u64) -> Vec<String> {
    let to = server.address;
    let create = |_| async move {
        let created = fetch(to, "POST", "/api/sessions", "{}").await.unwrap();
        let created: Value = serde_json::from_str(&created).unwrap();
        created["id"].as_str().unwrap().to_owned()
    };
    stream::iter(0..sessions).map(create).buffered(CONCURRENT).collect().await
}

/// Measures sessions with a run each.
pub(crate) async fn one_reader_each(server: &Process, mock: &Process, load: Load) -> Measured {
    let to = server.address;
    let sessions: Vec<String> =
        create(server, load.runs).await.iter().map(|id| format!("/api/sessions/{id}")).collect();
    let events = sessions.iter().map(|session| format!("{session}/events"));
    let mut readers = connect(to, events).await.into_iter();
    let message = json!({ "message": load.order() }).to_string();
    let run = |number| {
        let (path, message) = (format!("{}/prompt", sessions[number as usize]), message.clone());
        prompted(readers.next().unwrap(), Some((to, path, message)))
    };
    measure(load, (Some(server), mock), run).await
}

/// Measures a run of one session, which each run of the load reads.
pub(crate) async fn many_readers(server: &Process, mock: &Process, load: Load) -> Measured {
    let session = format!("/api/sessions/{}", create(server, 1).await[0]);
    let message = json!({ "message": load.order() }).to_string();
    let paths = (format!("{session}/events"), format!("{session}/prompt"));
    readers(server, mock, load, paths, message).await
}

/// Measures the same with the [broadcast](crate::reference::broadcast).
pub(crate) async fn broadcast(process: &Process, mock: &Process, load: Load) -> Measured {
    let paths = ("/events".to_owned(), "/prompt".to_owned());
    readers(process, mock, load, paths, model_request(&load.order())).await
}

async fn readers(
    process: &Process,
    mock: &Process,
    load: Load,
    (events, prompt): (String, String),
    message: String,
) -> Measured {
    let to = process.address;
    let readers = connect(to, (0..load.runs).map(|_| events.clone())).await;
    // The first reader sends the prompt.
    let mut prompt = Some((to, prompt, message));
    let mut readers = readers.into_iter();
    measure(load, (Some(process), mock), |_| prompted(readers.next().unwrap(), prompt.take())).await
}

/// Connects to streams of events.
async fn connect(to: SocketAddr, paths: impl Iterator<Item = String>) -> Vec<Lines> {
    let open = |path: String| async move {
        let mut lines = Lines::ask(to, "GET", &path, "").await.unwrap();
        assert!(lines.accepted().await, "{path} is refused");
        lines
    };
    stream::iter(paths).map(open).buffered(CONCURRENT).collect().await
}

/// Reads a reply, and sends the prompt for it, if any: address, path and body.
async fn prompted(lines: Lines, prompt: Option<(SocketAddr, String, String)>) -> Reply {
    let prompting = async {
        if let Some((to, path, body)) = prompt
            && let Err(why) = fetch(to, "POST", &path, &body).await
        {
            return Reply::failed(why);
        }
        std::future::pending().await
    };
    tokio::select! {
        reply = read(lines, EVENTS) => reply,
        reply = prompting => reply,
    }
}
