//! The model server: a separate process that speaks Chat Completions and writes the time of sending
//! into each delta.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

use crate::clock;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// The start of the prompt that orders a reply: microseconds between deltas, and their number.
const ORDER: &str = "Say: ";

/// Returns the prompt for a reply with `deltas` deltas at intervals of `pause`.
pub(crate) fn order(pause: Duration, deltas: u64) -> String {
    format!("{ORDER}{} {deltas} .", pause.as_micros())
}

/// Serves on a free port, which is printed on standard output, until standard input closes.
pub(crate) fn serve() {
    crate::end_with_parent();
    crate::runtime().block_on(async {
        let listener = crate::listen();
        println!("{}", listener.local_addr().unwrap());
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
}

/// Answers requests until the client hangs up or sends an invalid one.
async fn answer(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    loop {
        let (pause, deltas) = request(&mut stream).await?;
        stream.write_all(HEAD.as_bytes()).await.ok()?;
        send(&mut stream, &event(r#"{"role":"assistant","content":""}"#, "null")).await?;
        let mut ticks = interval(pause);
        // A late delta must not make the next ones arrive in a burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..deltas {
            ticks.tick().await;
            let sent = format!(r#"{{"content":"@{}@ "}}"#, clock());
            send(&mut stream, &event(&sent, "null")).await?;
        }
        let usage =
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}"#;
        send(&mut stream, &format!("{}data: {usage}\n\ndata: [DONE]\n\n", event("{}", "\"stop\"")))
            .await?;
        stream.write_all(b"0\r\n\r\n").await.ok()?;
    }
}

async fn send(stream: &mut TcpStream, data: &str) -> Option<()> {
    stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes()).await.ok()
}

fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\
         \"created\":1741570283,\"model\":\"mock\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// Reads a request and returns the order in its last message.
async fn request(stream: &mut TcpStream) -> Option<(Duration, u64)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = std::str::from_utf8(&bytes).ok()?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length =
            head.split("content-length: ").nth(1)?.lines().next()?.parse::<usize>().ok()?;
        if body.len() >= length {
            let mut words = body.rsplit_once(ORDER)?.1.split(' ');
            let mut number = || words.next()?.parse::<u64>().ok();
            return Some((Duration::from_micros(number()?), number()?));
        }
    }
}
