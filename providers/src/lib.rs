//! Model providers for loopwright.
