//! [`Lent`]: the session of a step.

use std::ops::{Deref, DerefMut};

use crate::session::Session;

/// A session that is lent to a step, behind a trait object. The compiler has to prove for each
/// pattern that its future may be sent to another thread. It would otherwise do so for everything
/// in a session each time, which took two thirds of the time in which patterns compile.
pub(crate) struct Lent<'a>(&'a mut dyn LentSession);

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
        Lent(session)
    }

    /// Lends it for a shorter time.
    pub(crate) fn lend(&mut self) -> Lent<'_> {
        Lent(self.0)
    }
}

impl Deref for Lent<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.0.get()
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.0.get_mut()
    }
}
