//! [`FramedHttp`]: an HTTP client whose answers are read by [`Frames`].

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use super::frames::{Frames, UNREADABLE};
use crate::lines::{Line, MAX_MESSAGE_BYTES};

type Headers = HashMap<HeaderName, HeaderValue>;

/// A client of the SDK. An HTTP status that it does not expect ends the request with an error that
/// says so.
#[derive(Clone)]
pub(super) struct FramedHttp<C> {
    pub(super) client: C,
    pub(super) frames: Frames,
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for FramedHttp<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        self.frames.sent(&message);
        let (id, starts) = match &message {
            ClientJsonRpcMessage::Request(request) => {
                (Some(request.id.clone()), starts_session(&request.request))
            }
            _ => (None, false),
        };
        // The answer can come on the stream of the session.
        let has_stream = session_id.is_some();
        let posted = self.client.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            limits,
        );
        let error = match posted.await {
            Ok(StreamableHttpPostResponse::Sse(events, session_id)) => {
                let events = read_events(self.frames.clone(), id, events);
                return Ok(StreamableHttpPostResponse::Sse(events, session_id));
            }
            Ok(StreamableHttpPostResponse::Json(message, session_id)) => {
                let message = self.frames.repair(message, id.as_ref());
                return Ok(StreamableHttpPostResponse::Json(message, session_id));
            }
            Ok(StreamableHttpPostResponse::Accepted) if id.is_some() && !has_stream && !starts => {
                unreadable("its answer is empty".into())
            }
            Ok(posted) => return Ok(posted),
            Err(why) => match (self.error_of(&why), starts) {
                (Some(error), false) if id.is_some() => error,
                _ => {
                    id.as_ref().map(|id| self.frames.take(id));
                    return Err(why);
                }
            },
        };
        id.as_ref().map(|id| self.frames.take(id));
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, id), None))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        self.client.delete_session(uri, session_id, auth_header, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, StreamableHttpError<C::Error>> {
        let max = MAX_MESSAGE_BYTES;
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            max,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<C::Error>> {
        let events = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            max,
        );
        Ok(read_events(self.frames.clone(), None, events.await?))
    }
}

impl<C> FramedHttp<C> {
    /// Returns the error of a request that the server has answered with an HTTP error or with
    /// something else than a message. Returns `None` if the connection has failed.
    fn error_of<E>(&self, why: &StreamableHttpError<E>) -> Option<ErrorData>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        match why {
            StreamableHttpError::HttpStatus(status) if status.status == 429 => {
                let wait =
                    status.retry_after.as_deref().map(|wait| format!(", Retry-After: {wait}"));
                let wait = wait.unwrap_or_default();
                let why = format!("HTTP 429, there are too many requests{wait}");
                Some(ErrorData::internal_error(why, None))
            }
            StreamableHttpError::HttpStatus(status) => {
                Some(unreadable(format!("its answer is HTTP {}", status.status)))
            }
            StreamableHttpError::AuthRequired(_) => Some(self.unauthorized("HTTP 401")),
            StreamableHttpError::InsufficientScope(_) => Some(self.unauthorized("HTTP 403")),
            StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => {
                Some(self.unauthorized("HTTP 401"))
            }
            StreamableHttpError::UnexpectedServerResponse(text) => {
                Some(unreadable(format!("its answer cannot be used: {text}")))
            }
            StreamableHttpError::UnexpectedContentType(kind) => {
                let kind = kind.as_deref().unwrap_or("unknown");
                Some(unreadable(format!("its answer has the media type {kind}")))
            }
            StreamableHttpError::ResponseBodyTooLarge { max_size } => {
                Some(unreadable(format!("its answer has more than {max_size} bytes")))
            }
            _ => None,
        }
    }

    /// Returns the error of a request that lacks authorization. The connection is opened again for
    /// the next one, which lets the user authorize it.
    fn unauthorized(&self, status: &str) -> ErrorData {
        self.frames.set_refused();
        let why = format!("{status}, the authorization is missing or has expired");
        ErrorData::internal_error(why, None)
    }
}

/// Returns whether the request starts a session. The SDK reads what the errors of such a request
/// mean for the version of the protocol.
fn starts_session(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_))
}

fn unreadable(why: String) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, why, Some(UNREADABLE.into()))
}

/// Returns the events with messages that the SDK can read. `asked` is the request that they answer,
/// if they answer a single one.
fn read_events(
    frames: Frames,
    asked: Option<RequestId>,
    events: BoxedSseResponse,
) -> BoxedSseResponse {
    let read = events.flat_map(move |event| {
        let mut read = Vec::new();
        match event {
            Ok(mut event) => {
                let data = event.data.take().unwrap_or_default();
                for message in frames.read(&Line::new(data.as_bytes(), false), asked.as_ref()) {
                    let mut event = event.clone();
                    event.data = serde_json::to_string(&message).ok();
                    read.push(Ok(event));
                }
                if read.is_empty() {
                    read.push(Ok(event)); // its id counts
                }
            }
            Err(why) => read.push(Err(why)),
        }
        stream::iter(read)
    });
    read.boxed()
}
