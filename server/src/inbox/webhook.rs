//! [`Webhook`]: new and resolved actions, sent to a URL.
//!
//! The headers and the signature follow the Standard Webhooks specification, version 1.0.0
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use loopwright_core::{Environment, SystemEnvironment};
use loopwright_host::ConfigError;
use reqwest::redirect::Policy;
use sha2::Sha256;
use tokio::sync::Semaphore;

use super::change::ActionChange;
use super::outbox::{Outbox, OutboxFile};
use crate::http_client::install_crypto_provider;

/// The prefix of a secret.
const SECRET_PREFIX: &str = "whsec_";
/// The length of a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The timeout of a delivery.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The delays before the retries of a delivery.
const RETRY_DELAYS: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(60 * 60),
    Duration::from_secs(4 * 60 * 60),
    Duration::from_secs(10 * 60 * 60),
    Duration::from_secs(24 * 60 * 60),
];
/// The interval of attempts to open the outbox while another process has it open.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of concurrent deliveries.
const MAX_DELIVERIES: usize = 16;

/// A webhook that sends each [`ActionChange`] to a URL, as JSON, signed as in the Standard Webhooks
/// specification: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
///
/// A delivery without a response status from 200 to 299 is retried eight times within two days.
/// Status 410 stops the retries. With an [outbox](Webhook::outbox), each change is sent at least
/// once, including unsent changes of a killed process and changes before the next process started.
/// Without one, a server that starts reports the pending actions, and the decisions of the last
/// three days. The receiver detects repetitions by their `webhook-id`.
///
/// ```
/// use loopwright_server::Webhook;
///
/// let hook = Webhook::new(
///     "https://example.org/actions",
///     "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr",
/// );
/// # let _ = hook;
/// ```
#[derive(Clone)]
pub struct Webhook {
    url: String,
    secret: String,
    outbox: Option<PathBuf>,
}

impl Webhook {
    /// Creates a webhook that sends changes to `url`, signed with a secret: `whsec_` followed by 24
    /// to 64 random bytes in Base64, as from `echo whsec_$(openssl rand -base64 32)`.
    pub fn new(url: impl Into<String>, secret: impl Into<String>) -> Self {
        Webhook { url: url.into(), secret: secret.into(), outbox: None }
    }

    /// Stores in this file which changes were reported and which are still to be sent. Each webhook
    /// needs a file of its own, on a disk of this machine. If several processes have the same file,
    /// the first one sends, and another one takes over when it ends. The file contains the
    /// arguments of calls, and only the user may read it.
    pub fn outbox(mut self, file: impl Into<PathBuf>) -> Self {
        self.outbox = Some(file.into());
        self
    }
}

/// A sender of changes.
#[derive(Clone)]
pub(crate) struct WebhookSender {
    url: Arc<str>,
    secret: Arc<[u8]>,
    client: reqwest::Client,
    capacity: Arc<Semaphore>,
    outbox: Option<Arc<Path>>,
}

impl WebhookSender {
    pub(crate) fn new(webhook: &Webhook) -> Result<Self, ConfigError> {
        let fail = |why: String| Err(ConfigError::new(why));
        let encoded = webhook.secret.strip_prefix(SECRET_PREFIX).unwrap_or_default();
        let secret = BASE64_STANDARD.decode(encoded).unwrap_or_default();
        if !SECRET_BYTES.contains(&secret.len()) {
            let why = "The secret of the webhook must be `whsec_` and 24 to 64 bytes in Base64, as \
                       `echo whsec_$(openssl rand -base64 32)` makes one.";
            return fail(why.into());
        }
        let url = reqwest::Url::parse(&webhook.url);
        if !url.is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
            return fail(format!("`{}` is no address of a webhook.", webhook.url));
        }
        if let Some(path) = &webhook.outbox
            && let Err(why) = OutboxFile::prepare(path)
        {
            let path = path.display();
            return fail(format!("The outbox of the webhook, {path}, cannot be written: {why}."));
        }
        install_crypto_provider();
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(TIMEOUT).build();
        match client {
            Ok(client) => Ok(WebhookSender {
                url: webhook.url.as_str().into(),
                secret: secret.into(),
                client,
                capacity: Arc::new(Semaphore::new(MAX_DELIVERIES)),
                outbox: webhook.outbox.as_deref().map(Into::into),
            }),
            Err(why) => fail(format!("The webhook cannot be used: {why}.")),
        }
    }

    /// Opens the outbox. Waits while another process has it open.
    pub(super) async fn outbox(&self) -> Outbox {
        let Some(path) = &self.outbox else { return Outbox::default() };
        loop {
            match open_outbox(path.clone()).await {
                Ok(Some(outbox)) => return outbox,
                Ok(None) => tracing::debug!(path = %path.display(), "another process sends"),
                Err(why) => {
                    let path = path.display();
                    tracing::error!(%path, %why, "the outbox of a webhook cannot be opened");
                }
            }
            tokio::time::sleep(LOCK_INTERVAL).await;
        }
    }

    /// Sends a change until it is accepted or given up.
    pub(crate) async fn deliver(&self, change: &ActionChange) {
        let (id, url) = (change.id(), &*self.url);
        let Ok(body) = serde_json::to_string(change) else { return }; // strings and numbers only
        let mut delays = RETRY_DELAYS.iter();
        loop {
            let permit = self.capacity.acquire().await;
            let sent = self.send(&id, &body).await;
            drop(permit);
            let why = match sent {
                Ok(status) if status.is_success() => return,
                Ok(status) if status == reqwest::StatusCode::GONE => {
                    return tracing::warn!(url, id, "the receiver of a webhook is gone");
                }
                Ok(status) => status.to_string(),
                Err(error) => error.without_url().to_string(),
            };
            let Some(delay) = delays.next() else {
                return tracing::error!(url, id, why, "a webhook is given up");
            };
            tracing::warn!(url, id, why, ?delay, "a webhook is sent again after a delay");
            tokio::time::sleep(*delay).await;
        }
    }

    async fn send(&self, id: &str, body: &str) -> reqwest::Result<reqwest::StatusCode> {
        let time = (SystemEnvironment.now() / 1000).to_string();
        let signature = signature(&self.secret, id, &time, body);
        let request = self.client.post(&*self.url).header("content-type", "application/json");
        let request = request.header("webhook-id", id).header("webhook-timestamp", time);
        let request = request.header("webhook-signature", signature).body(body.to_owned());
        Ok(request.send().await?.status())
    }
}

/// Opens an outbox. Returns `None` while another process has it open.
async fn open_outbox(path: Arc<Path>) -> io::Result<Option<Outbox>> {
    let opened = tokio::task::spawn_blocking(move || OutboxFile::open(&path)).await;
    match opened.unwrap_or_else(|why| Err(io::Error::other(why)))? {
        Some((file, lines)) => Outbox::of(file, lines).await.map(Some),
        None => Ok(None),
    }
}

/// Signs a delivery: HMAC-SHA256 over its id, its time and its body.
fn signature(secret: &[u8], id: &str, time: &str, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        return String::new(); // keys may have any length
    };
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's libraries.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
