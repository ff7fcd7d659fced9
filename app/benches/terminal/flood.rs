//! A model server that sends a hundred thousand deltas as fast as they are read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// The content of a reply.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Paragraphs, lists and code, as models write.
    Markdown,
    /// One block of code.
    Code,
    /// One line.
    Line,
}

/// A letter that occurs nowhere else: only changed cells are written, so words may be split.
pub(crate) const LAST: char = 'Ж';

/// Serves on a free port. Each reply has this number of deltas, at this rate per second if given,
/// then the letter.
pub(crate) fn serve(kind: Kind, deltas: u64, rate: Option<f64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), kind, deltas, rate);
        }
    });
    address
}

fn answer(mut stream: TcpStream, kind: Kind, deltas: u64, rate: Option<f64>) -> Option<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend(&buffer[..count]);
        let text = std::str::from_utf8(&bytes).ok()?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        if body.len()
            >= head.split("content-length: ").nth(1)?.lines().next()?.parse::<usize>().ok()?
        {
            break;
        }
    }
    let mut out = std::io::BufWriter::with_capacity(1 << 14, stream);
    out.write_all(HEAD.as_bytes()).ok()?;
    let started = Instant::now();
    for number in 0..deltas {
        write_delta(&mut out, delta(kind, number))?;
        if let Some(rate) = rate {
            out.flush().ok()?;
            let due = Duration::from_secs_f64((number + 1) as f64 / rate);
            std::thread::park_timeout(due.saturating_sub(started.elapsed()));
        }
    }
    write_delta(&mut out, &format!("\n```\n\n{LAST}"))?;
    let last = "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}";
    out.write_all(format!("data: {last}\n\ndata: [DONE]\n\n").as_bytes()).ok()?;
    out.flush().ok()
}

fn write_delta(out: &mut impl Write, text: &str) -> Option<()> {
    let text = serde_json::Value::from(text);
    let event = format!(
        "{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}},\"finish_reason\":null}}]}}"
    );
    out.write_all(format!("data: {event}\n\n").as_bytes()).ok()
}

/// Returns a delta of the reply.
fn delta(kind: Kind, number: u64) -> &'static str {
    match (kind, number, number % 100) {
        (Kind::Markdown, _, 0) => "\n\n## deal ",
        (Kind::Markdown, _, 20) => "\n\n- a **bad** `idea` ",
        (Kind::Markdown, _, 30) => "\n- lie ",
        (Kind::Markdown, _, 50) => "\n\n```rust\nfn call(a: i64) -> i64 {\n    a + 1 ",
        (Kind::Markdown, _, 80) => "\n}\n```\n\n",
        (Kind::Code, 0, _) => "```rust\nfn call(a: i64) -> i64 {\n    a + 1 ",
        (Kind::Code, _, 0 | 10 | 20 | 30 | 40 | 50 | 60 | 70 | 80 | 90) => "\n    let abide = 1; ",
        _ => "bead ",
    }
}
