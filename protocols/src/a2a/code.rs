//! The error codes that A2A adds to JSON-RPC's.

/// The code for an unknown task.
pub const TASK_NOT_FOUND: i32 = -32001;
/// The code for a task that cannot, or can no longer, be cancelled.
pub const TASK_NOT_CANCELABLE: i32 = -32002;
/// The code for push notifications, which the agent does not send.
pub const PUSH_NOTIFICATION_NOT_SUPPORTED: i32 = -32003;
/// The code for a message to a task that has ended or does not wait for input.
pub const UNSUPPORTED_OPERATION: i32 = -32004;
/// The code for a file of a type that the agent does not accept.
pub const CONTENT_TYPE_NOT_SUPPORTED: i32 = -32005;
/// The code for an extended card, which the agent does not have.
pub const EXTENDED_CARD_NOT_CONFIGURED: i32 = -32007;
/// The code for a client that uses another version of the protocol.
pub const VERSION_NOT_SUPPORTED: i32 = -32009;
