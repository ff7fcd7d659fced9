//! [`Lent`]: the session of a step.

use std::ops::{Deref, DerefMut};

use crate::session::Session;
use crate::session::budget_part::Part;

/// A session that is lent to a step, behind a trait object. The compiler has to prove for each
/// pattern that its future may be sent to another thread. It would otherwise do so for everything
/// in a session each time, which took two thirds of the time in which patterns compile.
pub(crate) struct Lent<'a> {
    session: &'a mut dyn LentSession,
    /// The number of the session's parts that this step is in. Those within it have ended when it
    /// is used again.
    parts: usize,
}

trait LentSession: Send {
    fn get(&self) -> &Session;
    fn get_mut(&mut self) -> &mut Session;
}

impl LentSession for Session {
    fn get(&self) -> &Session {
        self
    }

    fn get_mut(&mut self) -> &mut Session {
        self
    }
}

impl<'a> Lent<'a> {
    pub(crate) fn new(session: &'a mut Session) -> Self {
        Lent { session, parts: 0 }
    }

    /// Lends it for a shorter time.
    pub(crate) fn lend(&mut self) -> Lent<'_> {
        Lent { session: self.session, parts: self.parts }
    }

    /// Lends it to a part of the work.
    pub(crate) fn lend_to(&mut self, part: Part) -> Lent<'_> {
        let parts = self.parts + 1;
        self.deref_mut().budget_parts.push(part);
        Lent { session: self.session, parts }
    }

    /// Returns the parts that this step is in, the innermost last.
    pub(crate) fn parts(&self) -> &[Part] {
        let parts = &self.session.get().budget_parts;
        debug_assert!(parts.len() >= self.parts, "a part has ended while it is in use");
        parts.get(..self.parts).unwrap_or(parts)
    }
}

impl Deref for Lent<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.get()
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        let session = self.session.get_mut();
        session.budget_parts.truncate(self.parts);
        session
    }
}
