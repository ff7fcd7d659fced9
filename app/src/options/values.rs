//! Values with rules of their own.

use std::path::Path;

use loopwright_tools::{protected_file, protected_paths};
use serde_json::json;

/// Parses a sum of money.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.parse::<f64>().ok().filter(|dollars| is_sum(*dollars));
    dollars.ok_or_else(|| "it must be a number greater than 0".into())
}

/// Returns whether a budget can have this cost, in dollars.
pub(crate) fn is_sum(dollars: f64) -> bool {
    dollars.is_finite() && dollars > 0.0
}

/// Parses a path whose protection can be lifted: a protected path, or a parent of one.
pub(crate) fn protected_path(path: &str) -> Result<String, String> {
    let wanted = path.trim_start_matches("./").trim_end_matches('/');
    let is_at_or_above = |protected: &str| Path::new(protected).starts_with(wanted);
    let is_one = || protected_file("write_file", &json!({ "path": path })).is_some();
    if path == "." || (!wanted.is_empty() && (protected_paths().any(is_at_or_above) || is_one())) {
        return Ok(path.to_owned());
    }
    let all: Vec<&str> = protected_paths().collect();
    Err(format!("it is not protected; give `.` for all, or one of: {}", all.join(", ")))
}
