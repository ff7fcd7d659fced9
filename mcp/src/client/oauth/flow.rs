//! OAuth 2.1 with PKCE: [`Flow`] obtains the tokens of a server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{AuthClient, AuthError, AuthorizationRequest, AuthorizationSession};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::credentials::OfServer;
use super::visits::Visits;

/// The wait for the browser's callback after the user has answered.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a browser's request.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// The final page in the browser.
const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    You can close this page.\n";

/// An authorization that sends the user to a page.
pub(super) struct Flow {
    session: AuthorizationSession,
    /// The URL that the browser was redirected to.
    callback: oneshot::Receiver<String>,
    _listener: AbortOnDropHandle<()>,
}

/// The next step of the user.
pub(super) enum Next {
    /// Allow these origins, which the server names.
    Allow(BTreeSet<String>),
    /// Open the login page.
    Open(Box<Flow>),
}

impl Flow {
    /// Registers this client with the authorization server, if the user allows the origins that the
    /// MCP server names. The error is a sentence without a full stop.
    pub(super) async fn register(url: &str, tokens: OfServer) -> Result<Next, String> {
        let visits = visits(url, &tokens)?;
        match Self::try_register(url, tokens, &visits).await {
            Err(why) => match visits.take_named() {
                Some(origin) => Ok(Next::Allow(BTreeSet::from([origin]))),
                None => Err(why),
            },
            next => next,
        }
    }

    async fn try_register(url: &str, tokens: OfServer, visits: &Visits) -> Result<Next, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|why| why.to_string())?;
        let port = listener.local_addr().map_err(|why| why.to_string())?.port();
        let redirect = format!("http://127.0.0.1:{port}/callback");
        let manager = manager(url, tokens, visits.clone()).await;
        let mut manager = manager.map_err(|why| why.to_string())?;
        let metadata = manager.resolve_metadata().await.map_err(|why| why.to_string())?.metadata;
        let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
        let named = endpoints.into_iter().chain(&metadata.registration_endpoint);
        let others = named.map(|address| visits.other_origin(address));
        let others: Vec<_> = others.collect::<Result<_, _>>()?;
        let others: BTreeSet<String> = others.into_iter().flatten().collect();
        if !others.is_empty() {
            return Ok(Next::Allow(others));
        }
        manager.set_metadata(metadata);
        let request = AuthorizationRequest::new(&*redirect).with_client_name("loopwright");
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, why)| why.to_string())?;
        let (sender, callback) = oneshot::channel();
        let listen = tokio::spawn(receive(listener, redirect, sender));
        Ok(Next::Open(Box::new(Flow {
            session,
            callback,
            _listener: AbortOnDropHandle::new(listen),
        })))
    }

    /// Returns the URL of the login page.
    pub(super) fn page(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Exchanges the code of the browser's callback for tokens, and stores them. If the user's
    /// answer is a URL, it is used instead of the browser's. The error is a sentence without a full
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

/// Returns a client that sends the tokens of a server and refreshes them. Returns `None` if the
/// server has no tokens.
pub(super) async fn authorized_client(
    url: &str,
    tokens: Option<OfServer>,
    client: reqwest::Client,
) -> Result<Option<AuthClient<reqwest::Client>>, AuthError> {
    let Some(tokens) = tokens.filter(|tokens| tokens.credentials.has(&tokens.key)) else {
        return Ok(None);
    };
    let visits = visits(url, &tokens).map_err(AuthError::InternalError)?;
    let mut manager = manager(url, tokens, visits).await?;
    let is_known = manager.initialize_from_store().await?;
    Ok(is_known.then(|| AuthClient::new(client, manager)))
}

fn visits(url: &str, tokens: &OfServer) -> Result<Visits, String> {
    Visits::new(url, tokens.credentials.origins(&tokens.key))
}

async fn manager(
    url: &str,
    tokens: OfServer,
    visits: Visits,
) -> Result<AuthorizationManager, AuthError> {
    let visits = Arc::new(visits);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url, visits).await?;
    manager.set_credential_store(tokens);
    Ok(manager)
}

/// Waits for a browser's callback, and sends its URL. Other requests are ignored.
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
        // Do not wait for more: an attacker's page could keep the connection open.
        let is_read = tokio::time::timeout(Duration::from_secs(5), read).await.is_ok();
        if let Some(query) = query(&request).filter(|_| is_read) {
            let _ = stream.write_all(PAGE.as_bytes()).await;
            let _ = sender.send(format!("{redirect}?{query}"));
            return;
        }
    }
}

/// Returns the query of the callback, which has a code or an error. Returns `None` for other
/// requests.
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
