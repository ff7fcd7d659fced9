//! Origins of pages, as an operator writes them.

use axum::http::{HeaderValue, Uri};
use loopwright_host::ConfigError;

/// Parses an origin in the form that browsers send: a scheme, a host in lower case, and a port
/// unless it is the default one.
pub(crate) fn read_origin(text: &str) -> Result<HeaderValue, ConfigError> {
    let of_parts = |uri: Uri| {
        let (scheme, authority) = (uri.scheme_str()?.to_owned(), uri.authority()?.to_string());
        let is_default = |port: &str| matches!((&*scheme, port), ("http", "80") | ("https", "443"));
        let has_default = authority.rsplit_once(':').is_some_and(|(_, port)| is_default(port));
        (!authority.contains('@') && !has_default).then(|| format!("{scheme}://{authority}"))
    };
    let origin = text.parse::<Uri>().ok().and_then(of_parts);
    let is_origin = origin.is_some_and(|origin| origin.to_lowercase() == text);
    HeaderValue::from_str(text).ok().filter(|_| is_origin).ok_or_else(|| {
        let why = format!(
            "`{text}` is no origin: write scheme, host and port as browsers send them, without a \
             path, such as `https://app.example.org` or `http://localhost:3000`."
        );
        ConfigError::new(why)
    })
}
