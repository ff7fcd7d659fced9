//! Coding tools for loopwright, inside a directory they cannot leave.
