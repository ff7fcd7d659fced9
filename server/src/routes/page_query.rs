//! The query parameters of paginated lists.

use std::str::FromStr;

use crate::error::{ApiError, ErrorKind};

/// The default number of elements on a page.
pub(crate) const DEFAULT_LIMIT: u32 = 100;
pub(crate) const MAX_LIMIT: u32 = 1_000;

/// Checks the requested number of elements, and returns it or the default.
pub(crate) fn limit(given: Option<u32>) -> Result<usize, ApiError> {
    let limit = given.unwrap_or(DEFAULT_LIMIT);
    match (1..=MAX_LIMIT).contains(&limit) {
        true => Ok(limit as usize),
        false => Err(invalid(format!("`limit` must be a number from 1 to {MAX_LIMIT}."))),
    }
}

/// Parses the position after which the page begins.
pub(crate) fn cursor<T: FromStr>(after: Option<String>) -> Result<Option<T>, ApiError> {
    let invalid =
        |_| invalid("`after` is no position in the list: send the `next` of a page.".to_owned());
    after.map(|after| after.parse().map_err(invalid)).transpose()
}

fn invalid(why: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, why)
}
