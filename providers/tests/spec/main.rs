//! The providers over a real socket.
