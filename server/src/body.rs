//! Bodies of requests: bounded in size and time, JSON and nothing else, and errors that say where
//! in them.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::Server;
use crate::error::{ApiError, Kind};

/// The most bytes of headers and address.
const HEAD: usize = 32 * 1024;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Reads bodies whole before a route sees them. What is held of all of them together has a bound:
/// each takes its part of it as it arrives, and gives it back when the route has taken from it what
/// it keeps.
pub(crate) async fn bounded(
    State(server): State<Server>,
    request: Request,
    next: Next,
) -> Response {
    let shared = server.shared();
    let mut room = None;
    match read(request, shared.limits.body, &shared.bodies, &mut room).await {
        Ok(request) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

async fn read<'a>(
    request: Request,
    limit: usize,
    bodies: &'a Semaphore,
    room: &mut Option<SemaphorePermit<'a>>,
) -> Result<Request, ApiError> {
    let (head, body) = request.into_parts();
    let size =
        head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
    if size + head.uri.to_string().len() > HEAD {
        let why = format!("The headers and the address are larger than {HEAD} bytes.");
        return Err(ApiError::new(Kind::TooLarge, why)
            .with_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
    let too_large =
        || ApiError::new(Kind::TooLarge, format!("The body is larger than {limit} bytes."));
    let told = head
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let (mut body, mut bytes) = (Limited::new(body, limit), Vec::new());
    let whole = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| match why.is::<LengthLimitError>() {
                true => too_large(),
                false => ApiError::new(Kind::BadRequest, "The body broke off."),
            })?;
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            let more = u32::try_from(piece.len())
                .ok()
                .and_then(|length| bodies.try_acquire_many(length).ok());
            match (more, &mut *room) {
                (Some(more), Some(room)) => room.merge(more),
                (Some(more), room) => *room = Some(more),
                (None, _) => {
                    let why = "Too many large requests come at once: try again in a moment.";
                    return Err(ApiError::new(Kind::TooMany, why));
                }
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_TIME, whole).await {
        Ok(read) => read?,
        Err(_) => {
            return Err(ApiError::new(Kind::BadRequest, "The body took too long to arrive."));
        }
    }
    Ok(Request::from_parts(head, Body::from(bytes)))
}

fn is_json(headers: &axum::http::HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = types.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (kind, parameters) = kind.split_once(';').unwrap_or((kind, "charset=utf-8"));
    let utf8 = parameters.trim().eq_ignore_ascii_case("charset=utf-8");
    let one = types.next().is_none() && !headers.contains_key(header::CONTENT_ENCODING);
    one && utf8 && kind.trim().eq_ignore_ascii_case("application/json")
}

/// A body of this type, an object; whoever sends it must say that it is JSON, which a page of
/// another site cannot do unasked. One that is empty is `{}`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            let why = "The body must be JSON: send `Content-Type: application/json`, and no `Content-Encoding`.";
            return Err(ApiError::new(Kind::BadRequest, why)
                .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = request.into_body().collect().await; // whole and bounded, see above
        let bytes =
            bytes.map_err(|_| ApiError::new(Kind::BadRequest, "The body could not be read."))?;
        object(&bytes.to_bytes()).map(JsonBody)
    }
}

fn object<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| ApiError::new(Kind::BadRequest, "The body is not valid UTF-8."))?;
    match text.trim_ascii_start().chars().next() {
        None if text.is_empty() => json_at("{}", ""),
        Some('[') => Err(ApiError::at("", "The body is a list; an object is expected.")),
        _ => json_at(text, ""),
    }
}

/// A value of this type, from JSON that stands at `path` of the body.
pub(crate) fn json_at<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|why| {
        let mut at = path.to_owned();
        for segment in why.path() {
            use serde_path_to_error::Segment;
            match segment {
                Segment::Seq { index } => at.push_str(&format!("/{index}")),
                Segment::Map { key } | Segment::Enum { variant: key } => {
                    at.push('/');
                    at.push_str(
                        &key.replace('~', "~0")
                            .replace('/', "~1")
                            .chars()
                            .take(100)
                            .collect::<String>(),
                    );
                }
                Segment::Unknown => {}
            }
        }
        match why.inner().is_data() {
            true => ApiError::at(at, told(&why.inner().to_string())),
            false => ApiError::at(at, "The body is not valid JSON, or nested too deep."),
        }
    })?;
    json.end().map_err(|_| ApiError::at(path, "Something follows the JSON value of the body."))?;
    Ok(value)
}

/// What serde says, without the value that it is about: that may be a key.
fn told(why: &str) -> String {
    let why = why.split(" at line ").next().unwrap_or(why);
    match (why.strip_prefix("missing field "), why.rsplit_once(", expected ")) {
        (Some(field), _) => format!("The field {field} is missing."),
        (None, Some((_, expected))) => format!("This is not what is expected here: {expected}."),
        (None, None) if why.starts_with("duplicate field") => "A field is given twice.".into(),
        (None, None) => "This value is not valid here.".into(),
    }
}

/// `null` is what is left out.
pub(crate) fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A whole number, also if it is written `8.0`: for JSON they are the same.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(from)? else {
        return Ok(None);
    };
    match number as u32 {
        whole if f64::from(whole) == number => Ok(Some(whole)),
        _ => Err(D::Error::custom("not whole, expected a whole number, at most 4294967295")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_and_repeats_no_value() {
        #[derive(Debug, Deserialize)]
        struct Inner {
            #[expect(dead_code)]
            key: u32,
        }
        let wrong =
            json_at::<Vec<Inner>>(r#"[{"key": 1}, {"key": "sk-secret, expected sk-other"}]"#, "/a")
                .unwrap_err();
        let shown = format!("{wrong:?}");
        assert!(
            shown.contains("/a/1/key") && shown.contains("u32") && !shown.contains("sk-"),
            "{shown}"
        );
        let missing = format!("{:?}", json_at::<Inner>("{}", "").unwrap_err());
        assert!(missing.contains("The field `key` is missing."), "{missing}");
        let deep = "[".repeat(100_000);
        assert!(
            format!("{:?}", json_at::<serde_json::Value>(&deep, "").unwrap_err())
                .contains("nested too deep")
        );
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        let read = |text: &str| whole(&mut serde_json::Deserializer::from_str(text));
        for (text, number) in
            [("8", Some(8)), ("8.0", Some(8)), ("4294967295", Some(u32::MAX)), ("null", None)]
        {
            assert_eq!(read(text).unwrap(), number, "{text}");
        }
        for text in ["8.5", "-1", "4294967296", "1e300", "true", "\"8\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_bytes_are_an_empty_object_and_spaces_are_no_json() {
        let read =
            |text: &'static str| object::<serde_json::Value>(&Bytes::from_static(text.as_bytes()));
        assert_eq!(read("").unwrap(), serde_json::json!({}));
        assert!(read(" \r\n").is_err() && read("[]").is_err() && read("{} {}").is_err());
    }
}
