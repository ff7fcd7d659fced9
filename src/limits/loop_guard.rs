//! [`LoopGuard`], the limit of calls that are repeated without a new result.

use std::sync::Arc;

/// A guard against a model that is stuck: it makes the same calls again and again, and their
/// results are the same each time. First the model gets a note, then the run ends.
///
/// A reply repeats the one before it if it has the same calls, with the same names and arguments,
/// and they had the same results. The order of keys and the white space of the arguments, and the
/// text and thinking beside the calls make no difference. Two replies that alternate are a
/// repetition, too.
///
/// These restart the count, so that an agent may wait for something:
///
/// - a result that differs;
/// - a call that took [a second](crate::message::ToolResult::seconds) or more, such as a command
///   that sleeps before it looks again, and a call of a tool that [polls](LoopGuard::polling);
/// - a message of the user, a reply without calls, and calls that the pattern makes;
/// - a decision on a call, the end of a [sleep](crate::StepContext::sleep_until), and a `Continue`
///   after this limit.
///
/// So it does not find every loop: not one of slow calls, such as a build that fails again and
/// again, and not one whose results contain the time. The limit of turns ends these.
///
/// The count follows from the conversation in the log. So a restart neither forgets it nor repeats
/// the note, and compaction does not change it. Only the last replies are compared, before each
/// request of the conversation in which tools may be called.
///
/// At its limit the run ends with [`Limit::RepeatedCalls`](crate::limits::Limit::RepeatedCalls), as
/// at a budget: with an answer if [`Limits::wrap_up`](crate::limits::Limits::wrap_up) asks for one.
/// A message of the user continues the work, and so does `Continue`. In a sub-agent, the option of
/// its own agent counts.
///
/// From: "stuck detection" in OpenHands, which compares results as well, 2024; "doom loop" in
/// opencode.
///
/// ```
/// use loopwright_core::limits::{Budget, Limits, LoopGuard};
///
/// let guard = LoopGuard::new().polling(["job_status"]);
/// let limits = Limits::from(Budget::default().turns(100)).loop_guard(guard);
/// # assert!(limits.loop_guard.is_some());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopGuard {
    /// The number of times that the same calls have had the same results when the model gets a
    /// note; 3 by default.
    pub note_at: u32,
    /// The number of times at which the run ends; 5 by default.
    pub end_at: u32,
    /// The tools whose calls do not count.
    pub polling: Arc<[String]>,
}

impl LoopGuard {
    /// Returns the default: a note after the third time, the end after the fifth.
    pub fn new() -> Self {
        LoopGuard { note_at: 3, end_at: 5, polling: Arc::default() }
    }

    /// Sets after how many times the model gets a note, at least two. A number of at least `end_at`
    /// means no note.
    pub fn note_at(mut self, times: u32) -> Self {
        self.note_at = times;
        self
    }

    /// Sets after how many times the run ends, at least two.
    pub fn end_at(mut self, times: u32) -> Self {
        self.end_at = times.max(2);
        self
    }

    /// Sets the tools whose calls do not count, such as a quick look at the state of a job.
    pub fn polling<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.polling = tools.into_iter().map(Into::into).collect();
        self
    }
}

impl Default for LoopGuard {
    fn default() -> Self {
        Self::new()
    }
}
