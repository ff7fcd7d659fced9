//! [`Subject`]: a pattern in a scenario, with its undisturbed session.

use std::cell::Cell;
use std::sync::Arc;

use loopwright_core::event::RunStatus;
use loopwright_core::limits::Limit;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{ResultStatus, StopReason};
use loopwright_core::testing::{CheckError, Script, ScriptedModel, entry_name};
use loopwright_core::{AgentBuilder, BehaviorPattern, GenericAgent};

use super::product::{Product, count_requests};
use super::scenario::Scenario;
use super::session::{Disturbance, Ended, Session, Until};
use super::violation::{Rule, Violation};

/// A pattern in a scenario.
pub(super) struct Subject<'a> {
    new_value: &'a dyn Fn() -> Arc<dyn BehaviorPattern>,
    pub(super) scenario: &'a Scenario,
    /// The undisturbed session.
    pub(super) complete: Ended,
    sessions: Cell<usize>,
}

impl<'a> Subject<'a> {
    /// Runs the scenario undisturbed.
    pub(super) async fn run(
        new_value: &'a dyn Fn() -> Arc<dyn BehaviorPattern>,
        scenario: &'a Scenario,
    ) -> Result<Self, Violation> {
        let violation = |why| Violation::new(Rule::Sessions, scenario.name.clone(), why);
        let model = scenario.session.model();
        let builder = GenericAgent::builder(model.clone(), new_value());
        let builder = scenario.configure(builder, &model);
        let complete = async {
            let session = Session::open("s", scenario, builder, model, None).await?;
            session.run(Until::End).await?;
            session.end().await
        };
        let complete = complete.await.map_err(violation)?;
        if let Some((at, why)) = own_error(&complete.log) {
            let text = "a run ended with an error that no model had caused";
            let error = CheckError::new(text).note(format!("The error: {why}"));
            return Err(violation(error.log(&complete.log[..=at])));
        }
        Ok(Subject { new_value, scenario, complete, sessions: Cell::new(1) })
    }

    /// Returns the number of sessions so far.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.get()
    }

    /// Counts sessions that were run elsewhere.
    pub(super) fn count(&self, sessions: usize) {
        self.sessions.set(self.sessions.get() + sessions);
    }

    /// Returns a new value of the pattern.
    pub(super) fn new_value(&self) -> Arc<dyn BehaviorPattern> {
        (self.new_value)()
    }

    /// Returns an agent with this value of the pattern.
    pub(super) fn agent(
        &self,
        value: Arc<dyn BehaviorPattern>,
        model: &ScriptedModel,
    ) -> AgentBuilder {
        self.scenario.configure(GenericAgent::builder(model.clone(), value), model)
    }

    /// Returns a model with the replies of the scenario.
    pub(super) fn model(&self) -> ScriptedModel {
        self.scenario.session.model()
    }

    /// Returns a model with these replies, followed by the replies of the scenario's function.
    pub(super) fn model_with(&self, replies: impl IntoIterator<Item = Script>) -> ScriptedModel {
        self.scenario.model(replies)
    }

    /// Opens a session of a new value, which is disturbed after the append of that number.
    pub(super) async fn open(
        &self,
        model: ScriptedModel,
        disturbance: Option<(usize, Disturbance)>,
    ) -> Result<Session<'a>, CheckError> {
        let builder = self.agent(self.new_value(), &model);
        self.open_with(builder, model, disturbance).await
    }

    /// Opens a session of this agent, which is disturbed after the append of that number.
    pub(super) async fn open_with(
        &self,
        builder: AgentBuilder,
        model: ScriptedModel,
        disturbance: Option<(usize, Disturbance)>,
    ) -> Result<Session<'a>, CheckError> {
        self.count(1);
        Session::open("s", self.scenario, builder, model, disturbance).await
    }

    /// Returns the product of the undisturbed session.
    pub(super) fn product(&self) -> Product {
        Product::of(&self.complete.log, 0)
    }

    /// Returns whether every run ends because the agent finished, waits for decisions or sleeps,
    /// and none answered at a limit.
    pub(super) fn succeeds(&self) -> bool {
        self.complete.log.iter().all(|entry| match entry {
            LogEntry::RunEnded { end, limit: None, .. } => {
                matches!(end, RunStatus::Done | RunStatus::AwaitingAction | RunStatus::Sleeping)
            }
            LogEntry::RunEnded { .. } => false,
            _ => true,
        })
    }

    /// Returns whether a run ends because a budget is used up.
    pub(super) fn uses_up_a_budget(&self) -> bool {
        self.complete.log.iter().any(|entry| match entry {
            LogEntry::RunEnded { limit: Some(limit), .. } => *limit != Limit::RepeatedCalls,
            _ => false,
        })
    }

    /// Returns whether each request has a reply that nothing cut off.
    pub(super) fn has_whole_replies(&self) -> bool {
        let log = &self.complete.log;
        let is_whole = |entry: &&LogEntry| match entry {
            LogEntry::Replied { message, .. } | LogEntry::Detached { message, .. } => {
                message.as_assistant().is_some_and(|reply| !reply.stop.is_cut_off())
            }
            _ => false,
        };
        count_requests(log) == log.iter().filter(is_whole).count()
    }

    /// Returns whether a detached request has failed.
    pub(super) fn has_failed_replies(&self) -> bool {
        self.complete.log.iter().any(|entry| match entry {
            LogEntry::Detached { message, .. } => {
                message.as_assistant().is_some_and(|reply| reply.stop == StopReason::Error)
            }
            _ => false,
        })
    }

    /// Returns the name of the last entry of an append.
    pub(super) fn last_entry(&self, append: usize) -> String {
        let end = self.complete.appends.get(append).copied().unwrap_or_default();
        entry_name(&self.complete.log, end.saturating_sub(1))
    }

    /// Returns the violation of a rule.
    pub(super) fn violation(&self, rule: Rule, error: CheckError) -> Violation {
        Violation::new(rule, self.scenario.name.clone(), error)
    }
}

/// Returns the first end of a run with an error although no model had failed, and the error. A run
/// whose end skipped calls is left to the rule for calls.
fn own_error(log: &[LogEntry]) -> Option<(usize, &str)> {
    let mut has_skipped = false;
    for (at, entry) in log.iter().enumerate() {
        match entry {
            LogEntry::RunStarted { .. } => has_skipped = false,
            LogEntry::CallFinished { result } => {
                has_skipped |= result
                    .as_tool_result()
                    .is_some_and(|result| result.status == ResultStatus::Skipped);
            }
            LogEntry::RunEnded { end: RunStatus::Error, model_error: None, error, .. }
                if !has_skipped =>
            {
                return Some((at, error.as_deref().unwrap_or("unknown")));
            }
            _ => {}
        }
    }
    None
}
