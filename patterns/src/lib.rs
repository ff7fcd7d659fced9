//! Behaviour patterns for loopwright: generic and pi.
