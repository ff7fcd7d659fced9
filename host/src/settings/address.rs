//! Addresses of model servers, in the form stored with a session.

/// Words in the names of query parameters that contain credentials.
const CREDENTIAL_WORDS: [&str; 6] = ["key", "token", "secret", "auth", "password", "sig"];

/// Returns an address without a user, a password, or query parameters that look like credentials.
pub(crate) fn without_credentials(url: &str) -> String {
    let is_credential = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().to_lowercase();
        CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
    };
    let url = url.split('#').next().unwrap_or_default();
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) =
        url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme), rest));
    let host_end = rest.find('/').unwrap_or(rest.len());
    let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
    let parameters: Vec<&str> =
        query.split('&').filter(|part| !part.is_empty() && !is_credential(part)).collect();
    let query = match parameters.is_empty() {
        true => String::new(),
        false => format!("?{}", parameters.join("&")),
    };
    let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}{}{query}", &rest[host_start..])
}
