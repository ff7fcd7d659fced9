//! [`ErrorBody`]: the body of an error.

use schemars::JsonSchema;
use serde::Serialize;

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiErrorBody")]
pub struct ErrorBody {
    /// The only field, which has the details of the error.
    pub error: ErrorObject,
}

/// The details of an error, as in the OpenAI API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiError")]
pub struct ErrorObject {
    /// A sentence about what was wrong and what to do.
    pub message: String,
    /// The class of the error, such as `invalid_request_error`.
    pub r#type: &'static str,
    /// The field of the request that is wrong, such as `messages[0].content`.
    pub param: Option<String>,
    /// The kind of the error.
    pub code: Option<String>,
}

impl ErrorBody {
    /// Builds the error of a response with this HTTP status. `path` is a JSON Pointer into the
    /// request, or empty for the whole request.
    pub fn new(status: u16, message: &str, code: &str, path: &str) -> Self {
        let r#type = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let param = (!path.is_empty()).then(|| param(path));
        let (message, code) = (message.to_owned(), Some(code.to_owned()));
        ErrorBody { error: ErrorObject { message, r#type, param, code } }
    }
}

/// Converts a JSON Pointer to the API's form: `/messages/0/content` to `messages[0].content`.
fn param(path: &str) -> String {
    let mut param = String::new();
    for segment in path.split('/').skip(1) {
        match segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.is_empty() {
            true => param.push_str(&format!("[{segment}]")),
            false if param.is_empty() => param.push_str(segment),
            false => param.push_str(&format!(".{segment}")),
        }
    }
    param.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_becomes_a_param() {
        assert_eq!(param("/messages/0/content/1/image_url"), "messages[0].content[1].image_url");
        assert_eq!((param("/a~1b").as_str(), param("/0").as_str()), ("a/b", "[0]"));
        let error = ErrorBody::new(400, "No.", "bad_request", "").error;
        assert_eq!((error.param, error.r#type), (None, "invalid_request_error"));
    }
}
