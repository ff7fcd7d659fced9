//! Checks of a whole log, and the conversation that it describes.

use std::collections::HashSet;
use std::sync::Arc;

use crate::log::entry::LogEntry;
use crate::log::fold::Fold;
use crate::message::Message;

/// Checks the rules of a log: runs do not nest and end once, no message is delivered twice or after
/// it was withdrawn, every call has at most one result, no request is sent while a batch is open,
/// and no call is compacted without its results. The error names the entry that breaks a rule.
pub fn check_log(entries: &[LogEntry]) -> Result<(), String> {
    let (mut run, mut queued, mut finished) = (None, HashSet::new(), HashSet::new());
    let mut fold = Fold::default();
    for (at, entry) in entries.iter().enumerate() {
        let is_valid = match entry {
            LogEntry::RunStarted { run: new, .. } => run.replace(*new).is_none(),
            LogEntry::RunEnded { run: old, handed_back, .. } => {
                handed_back.iter().all(|input| queued.remove(input)) && run.take() == Some(*old)
            }
            LogEntry::Queued { input, .. } => queued.insert(input),
            LogEntry::Delivered { input } => queued.remove(input) && fold.batch.is_none(),
            LogEntry::Withdrawn { inputs } => inputs.iter().all(|input| queued.remove(input)),
            LogEntry::RequestStarted { .. }
            | LogEntry::Replied { .. }
            | LogEntry::Remembered { .. } => fold.batch.is_none(),
            LogEntry::Compacted { first, last, .. } => {
                run.is_some() && fold.batch.is_none() && fold.replaceable(*first, *last).is_some()
            }
            LogEntry::CallFinished { result } => {
                result.as_tool_result().is_some_and(|r| finished.insert(&r.call))
            }
            LogEntry::Reset => {
                queued.clear();
                true
            }
            _ => true,
        };
        if !is_valid {
            return Err(format!("entry {at} breaks the rules of the log: {entry:?}"));
        }
        fold.apply(entry, &mut |_| {});
    }
    Ok(())
}

/// Returns the messages of the conversation that a log describes.
pub fn replay_messages(entries: &[LogEntry]) -> Vec<Arc<Message>> {
    let mut fold = Fold::default();
    entries.iter().for_each(|entry| fold.apply(entry, &mut |_| {}));
    fold.history.to_vec()
}
