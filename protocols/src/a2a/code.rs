//! The codes of errors that A2A adds to those of JSON-RPC.

/// Means that there is no such task.
pub const TASK_NOT_FOUND: i32 = -32001;
/// Means that the task cannot be cancelled, or not any more.
pub const TASK_NOT_CANCELABLE: i32 = -32002;
/// Means that there are no push notifications.
pub const PUSH_NOTIFICATION_NOT_SUPPORTED: i32 = -32003;
/// Means that the task has ended, or does not wait for input.
pub const UNSUPPORTED_OPERATION: i32 = -32004;
/// Means that the agent does not take files of this kind.
pub const CONTENT_TYPE_NOT_SUPPORTED: i32 = -32005;
/// Means that there is no extended card.
pub const EXTENDED_CARD_NOT_CONFIGURED: i32 = -32007;
/// Means that the client uses another version of the protocol.
pub const VERSION_NOT_SUPPORTED: i32 = -32009;
