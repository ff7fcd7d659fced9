//! The providers over a real socket.
mod openai_chat;
mod server;
