//! OAuth 2.1 with PKCE (MCP, *Authorization*): [`Flow`] gets the tokens of a server.

use std::time::Duration;

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{AuthClient, AuthError, AuthorizationRequest, AuthorizationSession};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::credentials::OfServer;

/// How long the answer of a user may come before the browser's.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest request of a browser.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// What a browser shows in the end.
const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    You can close this page.\n";

/// An authorization for which the user is sent to a page.
pub(super) struct Flow {
    session: AuthorizationSession,
    /// The address that the browser was sent back to.
    callback: oneshot::Receiver<String>,
    _listener: AbortOnDropHandle<()>,
}

impl Flow {
    /// Registers this client with the authorization server of a server. The error is a sentence
    /// without a full stop.
    pub(super) async fn register(url: &str, tokens: OfServer) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|why| why.to_string())?;
        let port = listener.local_addr().map_err(|why| why.to_string())?.port();
        let redirect = format!("http://127.0.0.1:{port}/callback");
        let manager = manager(url, tokens).await;
        let mut manager = manager.map_err(|why| why.to_string())?;
        let metadata = manager.resolve_metadata().await.map_err(|why| why.to_string())?;
        manager.set_metadata(metadata.metadata);
        let request = AuthorizationRequest::new(&*redirect).with_client_name("loopwright");
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, why)| why.to_string())?;
        let (sender, callback) = oneshot::channel();
        let listen = tokio::spawn(receive(listener, redirect, sender));
        Ok(Flow { session, callback, _listener: AbortOnDropHandle::new(listen) })
    }

    /// Returns the address of the page.
    pub(super) fn page(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Exchanges what the browser was sent back with for tokens, and stores them. An answer of the
    /// user that is an address replaces that of the browser. The error is a sentence without a full
    /// stop.
    pub(super) async fn exchange(self, answer: &str) -> Result<(), String> {
        let answer = answer.trim();
        let callback = if answer.starts_with("http://") || answer.starts_with("https://") {
            answer.to_owned()
        } else {
            let received = tokio::time::timeout(CALLBACK_TIMEOUT, self.callback).await;
            let missing = "the browser was not sent back: answer with the address of its last page";
            received.map_err(|_| missing)?.map_err(|_| missing)?
        };
        let exchanged = self.session.handle_callback_url(&callback).await;
        exchanged.map(drop).map_err(|why| why.to_string())
    }
}

/// Returns a client that sends the tokens of a server and refreshes them, or `None` if there are
/// no tokens.
pub(super) async fn authorized_client(
    url: &str,
    tokens: Option<OfServer>,
    client: reqwest::Client,
) -> Result<Option<AuthClient<reqwest::Client>>, AuthError> {
    let Some(tokens) = tokens.filter(|tokens| tokens.credentials.has(&tokens.key)) else {
        return Ok(None);
    };
    let mut manager = manager(url, tokens).await?;
    let is_known = manager.initialize_from_store().await?;
    Ok(is_known.then(|| AuthClient::new(client, manager)))
}

async fn manager(url: &str, tokens: OfServer) -> Result<AuthorizationManager, AuthError> {
    let mut manager = AuthorizationManager::new(url).await?;
    manager.set_credential_store(tokens);
    Ok(manager)
}

/// Waits until a browser is sent back, and passes the address on. Other requests are ignored.
async fn receive(listener: TcpListener, redirect: String, sender: oneshot::Sender<String>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        let mut request = Vec::new();
        let read = async {
            let mut buffer = [0; 2048];
            while request.len() < MAX_REQUEST_BYTES && !request.windows(4).any(|w| w == b"\r\n\r\n")
            {
                match stream.read(&mut buffer).await {
                    Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                    _ => return,
                }
            }
        };
        // Nothing else is waited for: the page of an attacker could keep the connection open.
        let is_read = tokio::time::timeout(Duration::from_secs(5), read).await.is_ok();
        if let Some(query) = query(&request).filter(|_| is_read) {
            let _ = stream.write_all(PAGE.as_bytes()).await;
            let _ = sender.send(format!("{redirect}?{query}"));
            return;
        }
    }
}

/// Returns the query of a request for the callback, which has a code or an error.
fn query(request: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(request).ok()?.lines().next()?;
    let query = line.strip_prefix("GET /callback?")?.split(' ').next()?;
    (query.contains("code=") || query.contains("error=")).then_some(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_callback_has_a_query() {
        assert_eq!(query(b"GET /callback?code=a&state=b HTTP/1.1\r\n"), Some("code=a&state=b"));
        for other in [&b"GET /favicon.ico HTTP/1.1\r\n"[..], b"POST /callback?code=a", b"\xff", b""]
        {
            assert_eq!(query(other), None);
        }
    }
}
