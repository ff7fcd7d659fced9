//! [`WrapUp`], the answer of a run at its limit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const INSTRUCTION: &str = "No tool can be called any more. Answer now with what you have: what is \
    done, what you found, and what is left to do. Say plainly what you did not finish or check.";

/// The last request of a run that reaches a budget: it may call no tool, and asks the model to say
/// how far it came. So the run ends with an answer instead of an error.
///
/// The run's other requests leave room for it: one turn, the tokens of the conversation after
/// another turn of its mean length and of a reply, their cost, and [some time](WrapUp::time). The
/// first reply to a request may use up all but the time, since a budget of one turn is for an
/// answer and not for its summary. Tool results far longer than before, and replies far longer than
/// expected to several requests at once, can leave too little.
///
/// The run ends with [`RunStatus::Done`](crate::event::RunStatus::Done), or `Incomplete` if the
/// answer is cut off, and with the [limit](crate::event::RunOutcome::limit); with the typed value,
/// if an output schema was set and the answer fits it. If the conversation ends with a whole answer
/// already, because the pattern reached the limit behind it, no request is sent, and that is the
/// answer. A run that is resumed after its last request does not send it twice.
///
/// The run ends with [`RunStatus::Limit`](crate::event::RunStatus::Limit), as it does without this
/// option, if the request does not fit, if the reply fails, has no text or does not fit the schema,
/// if the run was only to compact, or if the budget is
/// [shared](crate::session::SharedBudget) with other sessions. Calls in the reply are not run, and
/// messages with which a hook wants to continue are dropped. A reply that fails after some text
/// stays in the conversation, as any does. In a sub-agent, the option of its own agent counts, and
/// its share of the budgets.
///
/// ```
/// use loopwright_core::limits::{Budget, Limits, WrapUp};
///
/// let limits = Limits::from(Budget::default().turns(20)).wrap_up(WrapUp::new());
/// # assert!(limits.wrap_up.is_some());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrapUp {
    /// The instruction to the model, after a sentence that names the limit.
    pub instruction: Arc<str>,
    /// The time that is kept for the request if the time is limited; 30 s by default, at most a
    /// quarter of the time.
    pub time: Duration,
}

impl WrapUp {
    /// Returns the default: it asks for what is done, what was found and what is left to do.
    pub fn new() -> Self {
        WrapUp { instruction: INSTRUCTION.into(), time: Duration::from_secs(30) }
    }

    /// Sets the instruction to the model, which follows a sentence that names the limit.
    pub fn instruction(mut self, text: impl Into<Arc<str>>) -> Self {
        self.instruction = text.into();
        self
    }

    /// Sets the time that is kept for the request if the time is limited.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Returns the message to the model.
    pub(crate) fn message(&self, limit: impl fmt::Display) -> String {
        format!("[{limit} is reached. {}]", self.instruction)
    }
}

impl Default for WrapUp {
    fn default() -> Self {
        Self::new()
    }
}
