//! JSON bodies of requests, and errors with the position of a mistake.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use loopwright_protocols::from_json;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, ErrorKind};

/// A JSON object, extracted from the body. The client must declare the body as JSON, which a page
/// of another site cannot do without the server's consent. An empty body is `{}`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let JsonBytes(bytes) = JsonBytes::from_request(request, state).await?;
        object(&bytes).map(JsonBody)
    }
}

/// A body declared as JSON, as for [`JsonBody`], for a protocol that parses it itself.
pub(crate) struct JsonBytes(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            let why = "The body must be JSON: send `Content-Type: application/json`, and no \
                       `Content-Encoding`.";
            return Err(ApiError::new(ErrorKind::BadRequest, why)
                .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = request.into_body().collect().await; // complete and bounded: see `body_limit`
        let bytes = bytes
            .map_err(|_| ApiError::new(ErrorKind::BadRequest, "The body could not be read."))?;
        Ok(JsonBytes(bytes.to_bytes()))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = types.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (kind, parameters) = kind.split_once(';').unwrap_or((kind, "charset=utf-8"));
    let utf8 = parameters.trim().eq_ignore_ascii_case("charset=utf-8");
    let one = types.next().is_none() && !headers.contains_key(header::CONTENT_ENCODING);
    one && utf8 && kind.trim().eq_ignore_ascii_case("application/json")
}

fn object<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes);
    let text =
        text.map_err(|_| ApiError::new(ErrorKind::BadRequest, "The body is not valid UTF-8."))?;
    match text.trim_ascii_start().chars().next() {
        None if text.is_empty() => json_at("{}", ""),
        Some('[') => Err(ApiError::at("", "The body is a list; an object is expected.")),
        _ => json_at(text, ""),
    }
}

/// Deserialises a value from JSON. `path` is the position of that JSON in the body.
pub(crate) fn json_at<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, ApiError> {
    Ok(from_json(text.as_bytes(), path)?)
}

#[cfg(test)]
mod tests {
    use loopwright_protocols::NOT_BLANK;
    use serde::Deserialize;

    use super::*;

    #[test]
    fn the_pattern_says_which_texts_are_blank() {
        let schema = serde_json::json!({ "pattern": NOT_BLANK });
        let validator = jsonschema::validator_for(&schema).unwrap();
        for code in 0..=0xffff {
            let Some(text) = char::from_u32(code).map(String::from) else { continue };
            let fits = validator.is_valid(&text.clone().into());
            assert_eq!(fits, !text.trim().is_empty(), "U+{code:04X}");
        }
    }

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
    fn no_bytes_are_an_empty_object_and_spaces_are_no_json() {
        let read =
            |text: &'static str| object::<serde_json::Value>(&Bytes::from_static(text.as_bytes()));
        assert_eq!(read("").unwrap(), serde_json::json!({}));
        assert!(read(" \r\n").is_err() && read("[]").is_err() && read("{} {}").is_err());
    }
}
