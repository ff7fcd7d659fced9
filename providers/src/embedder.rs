//! [`OpenAiEmbedder`]: vectors of texts, from the API of OpenAI and many local servers.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_core::retrieval::{Embedder, RetrievalError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::decorators::retry_rule::RetryRule;
use crate::http::key::Secret;
use crate::http::transport::{Address, ResponseBody};
use crate::http::unexpected_body::{UnexpectedBody, without_blanks};
use crate::http::{Http, Target};
use crate::model::builder::OpenAiChatBuilder;

/// The maximum number of texts in one request. Most servers allow more, but not all.
const MAX_BATCH: usize = 128;

/// The maximum number of bytes of a response: 128 vectors of 4,096 dimensions have about 12 MiB.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// An embedder for servers with OpenAI's API, `POST /v1/embeddings`: OpenAI itself, Ollama,
/// llama.cpp, vLLM and others. Built by
/// [`ModelBuilder::build_embedder`](crate::ModelBuilder::build_embedder).
///
/// Texts are sent in batches of 128, one batch at a time. A request that failed in a way that may
/// pass is sent again, with the attempts and delays of [`Retry`](crate::Retry). The tokens that the
/// server reports are not counted.
///
/// ```
/// use loopwright_core::retrieval::Embedder;
/// use loopwright_providers::OpenAiChat;
///
/// let embedder = OpenAiChat::builder("nomic-embed-text")
///     .base_url("http://127.0.0.1:11434/v1")
///     .provider("ollama")
///     .build_embedder(768)?;
/// assert_eq!(embedder.id(), "ollama/nomic-embed-text/768");
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
#[derive(Clone)]
pub struct OpenAiEmbedder {
    id: String,
    model: String,
    dimensions: usize,
    options: Map<String, Value>,
    http: Http,
    target: Target,
    rule: RetryRule,
}

impl OpenAiChatBuilder {
    /// Builds an embedder with this model, whose vectors have `dimensions` dimensions. Sends no
    /// request.
    ///
    /// The address, the key, the headers, the connections and the [options](Self::option) apply as
    /// for a chat model. A model that can shorten its vectors does so with the option `dimensions`.
    ///
    /// # Errors
    /// Returns the same errors as [`build`](Self::build).
    ///
    /// ```
    /// use loopwright_providers::OpenAiChat;
    /// use serde_json::json;
    ///
    /// let embedder = OpenAiChat::builder("text-embedding-3-small")
    ///     .api_key("of your own")
    ///     .option("dimensions", json!(384))
    ///     .build_embedder(384)?;
    /// # Ok::<(), loopwright_core::model::ModelError>(())
    /// ```
    pub fn build_embedder(self, dimensions: usize) -> Result<OpenAiEmbedder, ModelError> {
        let chat = self.build()?;
        let mut target = chat.target;
        let mut url = target.address.url;
        let path = url.path().trim_end_matches("/chat/completions").trim_end_matches("/embeddings");
        let path = format!("{path}/embeddings");
        url.set_path(&path);
        target.address = Address::new(url).map_err(|error| {
            let why = format!("The base URL of {} is not valid ({error}).", target.endpoint);
            ModelError::new(ModelErrorKind::InvalidRequest, why)
        })?;
        Ok(OpenAiEmbedder {
            id: format!("{}/{dimensions}", chat.info.id),
            model: chat.settings.model,
            dimensions,
            options: chat.settings.options,
            http: chat.http,
            target,
            rule: RetryRule::default(),
        })
    }
}

/// The response of the server.
#[derive(Deserialize)]
struct Embeddings {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl OpenAiEmbedder {
    /// Sets the maximum number of attempts of a request, including the first. Defaults to
    /// [`MAX_ATTEMPTS`](crate::MAX_ATTEMPTS).
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.rule.attempts = attempts;
        self
    }

    /// Sets the maximum delay before any attempt, even if the server requests a longer wait.
    /// Defaults to [`MAX_RETRY_DELAY`](crate::MAX_RETRY_DELAY).
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.rule.max_delay = delay;
        self
    }

    /// Embeds one batch, with retries.
    async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut body = self.options.clone();
        body.insert("model".into(), json!(self.model));
        body.insert("input".into(), json!(texts));
        body.insert("encoding_format".into(), json!("float"));
        let body = Bytes::from(Value::from(body).to_string());
        let mut delays = self.rule.delays();
        loop {
            let error = match self.request(body.clone(), texts.len()).await {
                Ok(vectors) => return Ok(vectors),
                Err(error) => error,
            };
            let Some(next) = self.rule.next(&mut delays, &error, false) else { return Err(error) };
            tracing::debug!(delay = ?next.delay, %error, "retrying a request for embeddings");
            tokio::time::sleep(next.delay).await;
        }
    }

    /// Sends one request and reads the whole response.
    async fn request(&self, body: Bytes, texts: usize) -> Result<Vec<Vec<f32>>, ModelError> {
        let limit = self.http.timeouts().first_event;
        let answer = async {
            let response = self.http.send(&self.target, None, body).await?;
            let secret = response.extensions().get::<Secret>().cloned();
            let result = self.read(response, texts).await;
            result.map_err(|error| match &secret {
                Some(secret) => secret.clean(error),
                None => error,
            })
        };
        tokio::time::timeout(limit, answer)
            .await
            .unwrap_or_else(|_| Err(self.target.too_slow("did not answer", limit)))
    }

    async fn read(
        &self,
        response: hyper::Response<ResponseBody>,
        texts: usize,
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        if !response.status().is_success() {
            return Err(self.target.refused(response).await);
        }
        let (status, encoded) = (response.status(), UnexpectedBody::of_headers(response.headers()));
        let mut body = response.into_body();
        if let Some(unexpected) = encoded {
            return Err(self.target.unexpected(status, unexpected, Vec::new(), body).await);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await {
            bytes.extend_from_slice(&chunk.map_err(|error| self.target.transport_error(&error))?);
            if bytes.len() > MAX_RESPONSE_BYTES {
                return Err(self.unusable("sent a response of more than 64 MiB"));
            }
        }
        if let Some(unexpected) = UnexpectedBody::of_start(without_blanks(&bytes)) {
            return Err(self.target.unexpected(status, unexpected, bytes, body).await);
        }
        self.vectors(&bytes, texts)
    }

    /// Reads the vectors of a response, in the order of the texts.
    fn vectors(&self, bytes: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut data = match serde_json::from_slice::<Embeddings>(bytes) {
            Ok(response) => response.data,
            Err(error) => {
                let text = String::from_utf8_lossy(bytes);
                let error = self.target.endpoint.unreadable("no list of vectors", &text, &error);
                return Err(self.target.clean(error));
            }
        };
        data.sort_by_key(|item| item.index);
        if !data.iter().map(|item| item.index).eq(0..texts) {
            return Err(self.unusable(&format!("sent {} vectors for {texts} texts", data.len())));
        }
        let is_wrong = |item: &&Embedding| {
            item.embedding.len() != self.dimensions
                || item.embedding.iter().any(|value| !value.is_finite())
        };
        if let Some(wrong) = data.iter().find(is_wrong) {
            let (found, wanted) = (wrong.embedding.len(), self.dimensions);
            let why = format!(
                "{} sent a vector of {found} dimensions for `{}`, not {wanted} finite numbers. \
                 Give `build_embedder` the number of dimensions of the model.",
                self.target.endpoint, self.model
            );
            return Err(ModelError::new(ModelErrorKind::InvalidRequest, why));
        }
        Ok(data.into_iter().map(|item| item.embedding).collect())
    }

    fn unusable(&self, problem: &str) -> ModelError {
        self.target.endpoint.unusable(problem)
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_BATCH) {
            vectors.extend(self.embed_batch(batch).await.map_err(RetrievalError::failed)?);
        }
        Ok(vectors)
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for OpenAiEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("OpenAiEmbedder");
        debug.field("id", &self.id).field("target", &self.target);
        debug.finish_non_exhaustive()
    }
}
