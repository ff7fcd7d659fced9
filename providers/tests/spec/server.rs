//! A server whose replies the test controls.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A listening socket on this machine.
pub(crate) struct Server(TcpListener);

/// A connection whose request has been read.
pub(crate) struct Exchange {
    /// The request's head, as received.
    pub(crate) head: String,
    /// The request's body, as received.
    pub(crate) raw: String,
    /// The request's body, parsed.
    pub(crate) body: serde_json::Value,
    stream: TcpStream,
}

impl Server {
    /// Starts a server on a free port.
    pub(crate) async fn start() -> Server {
        Server(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Returns the base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/", self.0.local_addr().unwrap())
    }

    /// Accepts a connection, without reading from it.
    pub(crate) async fn accept_stream(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }

    /// Accepts a connection and reads the head of its first request.
    pub(crate) async fn accept_head(&self) -> (String, TcpStream) {
        let (mut stream, mut bytes) = (self.accept_stream().await, Vec::new());
        while !bytes.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the client hung up");
        }
        (String::from_utf8_lossy(&bytes).to_lowercase(), stream)
    }

    /// Accepts a connection and reads its first request.
    pub(crate) async fn accept(&self) -> Exchange {
        Exchange::read(self.accept_stream().await).await
    }
}

impl Exchange {
    async fn read(mut stream: TcpStream) -> Exchange {
        let mut bytes = Vec::new();
        loop {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the client hung up");
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_lowercase();
            let length = head
                .split("content-length: ")
                .nth(1)
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap();
            if body.len() == length {
                let raw = body.to_owned();
                let body = serde_json::from_str(body).unwrap();
                return Exchange { head, raw, body, stream };
            }
        }
    }

    /// Reads the next request on the same connection.
    pub(crate) async fn next(self) -> Exchange {
        Exchange::read(self.stream).await
    }

    /// Starts an event stream.
    pub(crate) async fn begin(&mut self) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: \
                    chunked\r\n\r\n";
        self.stream.write_all(head.as_bytes()).await.unwrap();
    }

    /// Sends one chunk.
    pub(crate) async fn chunk(&mut self, text: &str) {
        self.stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.unwrap();
    }

    /// Ends the stream as specified by HTTP.
    pub(crate) async fn end(&mut self) {
        self.stream.write_all(b"0\r\n\r\n").await.unwrap();
    }

    /// Sends a complete response.
    pub(crate) async fn answer(&mut self, status: &str, headers: &str, body: &str) {
        let answer =
            format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(answer.as_bytes()).await.unwrap();
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}
