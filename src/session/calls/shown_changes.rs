//! [`ShownChanges`]: a call makes the change that was shown to those who approved it, or none.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use serde_json::Value;

use crate::event::action::change_digest;
use crate::log::calls::{Call, Phase};
use crate::message::ResultStatus;
use crate::tool::{Outcome, Tool, ToolContext, ToolOutput};

/// The result of a call that may have run in another process.
pub(crate) const OUTCOME_UNKNOWN: &str = "The outcome is unknown: it may have run before the \
    process was interrupted. Check before you call it again.";

const OTHER_CHANGE: &str = "It has not run: it would not make the change that was shown to the \
    user who approved it. Look at the current state, and make the call again.";
const NO_CHANGE: &str = "It has not run: the change that the user approved cannot be computed \
    any more. Look at the current state, and make the call again.";

/// The changes that were shown to those who approved a call, by digest.
#[derive(Default)]
pub(crate) struct ShownChanges {
    digests: Vec<Arc<str>>,
    /// `true` if the call had started in another process, which may have made the change.
    has_started: bool,
    /// `true` once a run was allowed. A hook may run the tool again, after its own change.
    is_allowed: AtomicBool,
}

impl ShownChanges {
    /// Returns the changes that were shown for a call that is about to start. A tool that suspended
    /// continues a change that has begun.
    pub(crate) fn of(call: &Call) -> Self {
        let digests = call.approvals.iter().filter_map(|approval| approval.change.clone());
        ShownChanges {
            digests: digests.filter(|_| call.resolution.is_none()).collect(),
            has_started: matches!(call.phase, Phase::Started { .. }),
            is_allowed: AtomicBool::new(false),
        }
    }

    /// Returns the end of a call that would no longer make these changes, or `None` if it may run.
    pub(crate) async fn refuse(
        &self,
        tool: &dyn Tool,
        arguments: &Value,
        cx: &ToolContext,
    ) -> Option<Outcome> {
        if self.digests.is_empty() || self.is_allowed.load(Ordering::Relaxed) {
            return None;
        }
        let preview = AssertUnwindSafe(tool.preview(arguments)).catch_unwind();
        let why = match cx.cancel.run_until_cancelled(preview).await {
            None => return Some(Outcome::Cancelled(None)),
            Some(Ok(Ok(None))) => return None, // the tool has no previews
            Some(Ok(Ok(Some(now)))) => {
                let now = change_digest(&now);
                if self.digests.iter().all(|shown| *shown == now) {
                    self.is_allowed.store(true, Ordering::Relaxed);
                    return None;
                }
                OTHER_CHANGE
            }
            Some(Ok(Err(_)) | Err(_)) => NO_CHANGE,
        };
        let why = if self.has_started { OUTCOME_UNKNOWN } else { why };
        Some(Outcome::Result(ResultStatus::Error, ToolOutput::text(why)))
    }
}
