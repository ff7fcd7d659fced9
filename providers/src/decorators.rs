//! Decorators of any model, which delay, repeat, or redirect its requests; and a hook that reads
//! calls in texts.

mod emitted;
pub(crate) mod fallback;
pub(crate) mod rate_limit;
pub(crate) mod retry;
pub(crate) mod retry_malformed_calls;
pub(crate) mod retry_rule;
pub(crate) mod text_tool_calls;
