//! Parameters that cannot be arguments of a call.

/// Waits.
#[loopwright::tool]
fn generic<T>(value: T) {}

/// Waits.
#[loopwright::tool]
fn borrowed(values: &[u8]) {}

/// Waits.
#[loopwright::tool]
fn nested(value: Option<&str>) {}

/// Waits.
#[loopwright::tool]
fn pattern((a, b): (u8, u8)) {}

/// Waits.
#[loopwright::tool]
fn unnamed(value: impl Into<String>) {}

fn main() {}
