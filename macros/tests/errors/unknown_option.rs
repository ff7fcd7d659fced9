//! Unknown options, and options with wrong values.

/// Waits.
#[loopwright::tool(readonly)]
fn unknown() {}

/// Waits.
#[loopwright::tool(timeout = "20 seconds")]
fn time() {}

/// Waits.
#[loopwright::tool(read_only, at_most_once)]
fn two_effects() {}

/// Waits.
#[loopwright::tool(name = "get weather")]
fn name() {}

/// Waits.
#[loopwright::tool(approval = "always")]
fn approval() {}

/// Waits.
#[loopwright::tool(sequential = true)]
fn flag() {}

fn main() {}
