//! The frames of `/api/agent-chat`.
