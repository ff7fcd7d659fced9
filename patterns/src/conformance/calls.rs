//! The rule [`Rule::Calls`](super::Rule::Calls).

use loopwright_core::Message;
use loopwright_core::event::{QueueKind, RunStatus};
use loopwright_core::log::LogEntry;
use loopwright_core::message::{ResultStatus, ToolResult};
use loopwright_core::testing::{CheckError, entry_name};

use super::subject::Subject;

pub(super) fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    let mut run = RunCalls::default();
    let log = &subject.complete.log;
    for (at, entry) in log.iter().enumerate() {
        run.check(entry).map_err(|why| {
            CheckError::new(why).when(format!("at {}", entry_name(log, at))).log(&log[..=at])
        })?;
    }
    Ok(())
}

/// The calls of the run in progress.
#[derive(Default)]
struct RunCalls {
    /// A steer has arrived, which skips calls.
    is_steered: bool,
    /// The results of the last reply, if no message follows them.
    last_results: Vec<ToolResult>,
    /// The number of calls without a result, of the last reply or of the pattern.
    open: usize,
    /// `true` if the pattern made the calls, so that it decides what follows from their results.
    is_of_pattern: bool,
}

impl RunCalls {
    fn check(&mut self, entry: &LogEntry) -> Result<(), String> {
        match entry {
            LogEntry::RunStarted { .. } => self.is_steered = false,
            LogEntry::Queued { kind: QueueKind::Steering, .. } => self.is_steered = true,
            LogEntry::Replied { message, .. } | LogEntry::Called { message, .. } => {
                self.open = calls(message);
                self.is_of_pattern = matches!(entry, LogEntry::Called { .. });
                self.last_results.clear();
            }
            LogEntry::Delivered { .. } | LogEntry::Remembered { .. } | LogEntry::Rewound { .. }
                if self.open == 0 =>
            {
                self.last_results.clear();
            }
            LogEntry::CallFinished { result } => {
                let Some(result) = result.as_tool_result() else { return Ok(()) };
                self.open = self.open.saturating_sub(1);
                if !self.is_of_pattern {
                    self.last_results.push(result.clone());
                }
                if result.status == ResultStatus::Skipped && !self.is_steered {
                    return Err(format!(
                        "the call {} of `{}` was skipped because the run ended before it ran or \
                         was decided on",
                        result.call, result.name
                    ));
                }
            }
            LogEntry::RequestStarted { .. } if self.asks_for_the_end() => {
                return Err(
                    "a request was sent although all results had asked for the end of the run"
                        .into(),
                );
            }
            LogEntry::RunEnded { end: RunStatus::Done, .. } => return self.check_end(),
            _ => {}
        }
        Ok(())
    }

    fn asks_for_the_end(&self) -> bool {
        let results = &self.last_results;
        self.open == 0 && !results.is_empty() && results.iter().all(|result| result.terminate)
    }

    fn check_end(&self) -> Result<(), String> {
        if self.last_results.is_empty() || self.asks_for_the_end() {
            return Ok(());
        }
        Err("the run ended as done, and the model had not seen the results of its calls".into())
    }
}

fn calls(message: &Message) -> usize {
    message.as_assistant().map_or(0, |reply| reply.calls().count())
}
