//! The `loopwright` binary.
fn main() {}
