//! The stages of the pattern's work in the state, with the counts of their branches.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::session_state::SessionState;
use crate::event::AgentEvent;
use crate::log::calls::Phase;
use crate::log::entry::{LogEntry, StateScope};
use crate::log::stages::{BranchCounts, STAGES, STAGES_KEY, Stage, under};
use crate::message::ResultStatus;

impl SessionState {
    /// Updates the stages after an entry was applied. Emits an event if they have changed, except
    /// at the beginning of an ownership and at the end of a run, whose event is the last one.
    pub(super) fn update_stages(&mut self, entry: &LogEntry, emit: &mut dyn FnMut(AgentEvent)) {
        let is_set = match entry {
            LogEntry::State { scope, key, .. } => {
                *scope == StateScope::Request && **key == *STAGES_KEY
            }
            _ => false,
        };
        if self.stages.is_empty() && !is_set {
            return;
        }
        let value = self.values.get(&(StateScope::Request, STAGES_KEY.into()));
        let stages = match value {
            None => Vec::new(),
            Some(value) if is_set => self.read_stages(value),
            Some(_) if self.stages.iter().all(|stage| stage.until.is_some()) => return,
            Some(_) => self.count_current(),
        };
        if stages == self.stages {
            return;
        }
        self.stages = stages;
        if !matches!(entry, LogEntry::Opened { .. } | LogEntry::RunEnded { .. })
            && let Ok(data) = serde_json::to_value(&self.stages)
        {
            emit(AgentEvent::Custom { kind: STAGES.into(), data: Arc::new(data) });
        }
    }

    fn read_stages(&self, value: &Value) -> Vec<Stage> {
        let mut stages = Vec::<Stage>::deserialize(value).unwrap_or_default();
        for stage in &mut stages {
            let is_current = stage.until.is_none();
            stage.branches = stage.branches.take().map(|known| self.count(known, is_current));
        }
        stages
    }

    /// Returns the stages with the branches of the current one as they are now.
    fn count_current(&self) -> Vec<Stage> {
        let mut stages = self.stages.clone();
        for stage in stages.iter_mut().filter(|stage| stage.until.is_none()) {
            stage.branches = stage.branches.take().map(|known| self.count(known, true));
        }
        stages
    }

    fn count(&self, BranchCounts { key, of, .. }: BranchCounts, is_current: bool) -> BranchCounts {
        let replied = under(&self.keyed_replies, &key).count();
        let results = under(&self.keyed_results, &key).map(|keyed| &keyed.result);
        let is_ok = |status| status == ResultStatus::Ok;
        let results = results.filter_map(|result| Some(is_ok(result.as_tool_result()?.status)));
        let (succeeded, failed): (Vec<bool>, Vec<bool>) = results.partition(|is_ok| *is_ok);
        let calls = self.batch.iter().flat_map(|batch| batch.open_under(&key));
        let (mut running, mut waiting) = (0, 0);
        for call in calls {
            let waits = call.child.as_ref().is_some_and(|child| !child.actions.is_empty());
            match &call.phase {
                Phase::Awaiting(_) => waiting += 1,
                Phase::Started { .. } if waits => waiting += 1,
                Phase::Started { .. } => running += 1,
                _ => {}
            }
        }
        let (done, failed) = (replied + succeeded.len(), failed.len());
        if is_current && self.batch.is_none() {
            running = self.reserved.len().min(of.saturating_sub(done + failed));
        }
        BranchCounts { key, of, done, failed, running, waiting }
    }
}
