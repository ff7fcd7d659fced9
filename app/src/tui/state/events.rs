//! The transitions caused by the agent's events.

use loopwright_core::AgentEvent;
use loopwright_core::event::{Envelope, RunCause, RunOutcome};
use loopwright_core::limits::Limit;
use loopwright_core::log::Stage;
use loopwright_core::message::MessageKind;
use loopwright_core::model::Update;
use loopwright_patterns::{GoalEnd, GoalProgress};

use super::core::State;
use super::effect::{Effect, Tone};
use super::entry::user_text;
use super::status::{Activity, Run};
use crate::wording::{self, Failure, sentence};

impl State {
    /// Handles an event. Events of sub-agents are ignored: the parent's call shows their result.
    pub(crate) fn event(&mut self, envelope: &Envelope) -> Vec<Effect> {
        if envelope.parent.is_some() {
            return Vec::new();
        }
        self.last_run = Some(envelope.run_id);
        self.transcript.event(envelope);
        self.status.event(&envelope.event);
        match &envelope.event {
            AgentEvent::AgentStart { cause, .. } => self.run_started(cause, envelope.time),
            AgentEvent::TurnStart { .. } => self.set_activity(Activity::Requesting),
            AgentEvent::MessageUpdate { update, .. } => self.set_activity(match update {
                Update::Thinking { .. } => Activity::Thinking,
                Update::ToolCallStart { .. } | Update::ToolCall { .. } => Activity::Calling,
                Update::Withdrawn => Activity::Requesting,
                _ => Activity::Writing,
            }),
            AgentEvent::DetachedUpdate { update, .. } => self.set_activity(match update {
                Update::Thinking { .. } => Activity::Thinking,
                Update::Withdrawn => Activity::Requesting,
                _ => Activity::Writing,
            }),
            AgentEvent::Retry(notice) => {
                let until = envelope.time.saturating_add(notice.delay_ms);
                self.set_activity(Activity::Retrying(notice.clone(), until));
            }
            AgentEvent::MessageEnd { message } => match &message.body {
                MessageKind::User(_) => {
                    self.has_user_message = true;
                    self.prompt.remember(user_text(message));
                }
                MessageKind::Assistant(_) => self.set_activity(Activity::Requesting),
                _ => {}
            },
            AgentEvent::ToolExecutionStart { name, .. } => {
                self.set_activity(Activity::Running(name.clone()));
            }
            AgentEvent::ToolExecutionUpdate { .. } => {
                if let Some(name) = self.transcript.running().cloned() {
                    self.set_activity(Activity::Running(name));
                }
            }
            AgentEvent::ToolExecutionEnd { call, .. } => {
                let running = self.transcript.running().cloned();
                self.set_activity(running.map_or(Activity::Requesting, Activity::Running));
                let effects = self.dialog.close(call, self.now);
                return if effects.is_empty() { self.dialog.refresh_preview() } else { effects };
            }
            AgentEvent::ExternalAction(action) => {
                return self.dialog.open(action, self.now, !self.prompt.is_empty());
            }
            AgentEvent::ExternalActionApproval { call, approval } => {
                self.dialog.approved(call, approval);
            }
            AgentEvent::ExternalActionEnd { call, .. } => return self.dialog.close(call, self.now),
            AgentEvent::QueueUpdate { added, removed } => {
                self.queues.update(added.as_deref(), removed);
                return self.continue_queued();
            }
            AgentEvent::AgentEnd(outcome) => return self.run_ended(outcome),
            event => {
                if let Some(stages) = Stage::all(event) {
                    self.stages = stages;
                }
                if let Some(end) = GoalEnd::of(event) {
                    let tone = if end.reached { Tone::Quiet } else { Tone::Loud };
                    self.transcript.notice(tone, wording::goal(&end));
                } else if let Some(progress) = GoalProgress::of(event) {
                    self.transcript.notice(Tone::Quiet, wording::goal_progress(&progress));
                }
            }
        }
        Vec::new()
    }

    fn run_started(&mut self, cause: &RunCause, time: u64) {
        let (since, stopping) = match self.run {
            Run::Working { since, stopping, .. } => (since, stopping),
            _ => (time, false),
        };
        let activity = if matches!(cause, RunCause::Compact { .. }) {
            Activity::Compacting
        } else {
            Activity::Requesting
        };
        self.run = Run::Working { since, activity, stopping };
    }

    fn set_activity(&mut self, new: Activity) {
        if let Run::Working { activity, .. } = &mut self.run {
            *activity = new;
        }
    }

    fn run_ended(&mut self, outcome: &RunOutcome) -> Vec<Effect> {
        self.run = Run::Idle;
        self.has_finished = outcome.has_finished();
        match wording::failure(outcome) {
            None => {
                if let Some(note) = wording::asleep(outcome, self.now) {
                    self.transcript.notice(Tone::Quiet, note);
                }
            }
            Some(Failure::Aborted) => self.transcript.notice(Tone::Quiet, wording::INTERRUPTED),
            Some(Failure::Turns(why)) => {
                let text = format!("{} `/continue` resumes the run.", sentence(&why));
                self.transcript.notice(Tone::Error, text);
            }
            Some(Failure::Answered(why)) => {
                let more = match outcome.limit {
                    Some(Limit::Run(_) | Limit::Part(_) | Limit::RepeatedCalls) => {
                        " A message continues the work."
                    }
                    _ => "",
                };
                self.transcript.notice(Tone::Loud, sentence(&why) + more);
            }
            Some(Failure::Incomplete(_)) => {} // the reply itself is marked
            Some(Failure::Limit(why)) => self.transcript.notice(Tone::Error, sentence(&why)),
            Some(Failure::Error(why)) => {
                let text = format!("{} `/continue` retries.", sentence(&why));
                self.transcript.notice(Tone::Error, text);
            }
        }
        if !outcome.handed_back.is_empty() {
            self.restore_to_prompt(&outcome.handed_back);
        }
        self.continue_queued()
    }
}
