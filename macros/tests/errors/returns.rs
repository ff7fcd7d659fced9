//! Values and errors that a model cannot read.

struct Opaque;

/// Returns a value without a text.
#[loopwright::tool]
fn value() -> Opaque {
    Opaque
}

/// Returns an error without a text.
#[loopwright::tool]
fn error() -> Result<String, Opaque> {
    Err(Opaque)
}

fn main() {}
