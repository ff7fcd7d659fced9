//! [`SessionInfo`]: the description of a session in lists, with its pending actions.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::MemoryError;
use crate::event::Parent;
use crate::event::action::{ExternalAction, call_of_child};
use crate::event::owner_note::Held;
use crate::log::due::{Agenda, Due};
use crate::log::entry::LogEntry;
use crate::log::owners::Owners;
use crate::log::pending::PendingAction;
use crate::log::turn::add_cost;
use crate::log::waits::{self, Signal, Wait};
use crate::message::{InputId, RunId, Usage};
use crate::principal::Principal;
use crate::tool::ApprovalRecord;

/// The description of a session in lists of sessions. A store that keeps it beside the log must
/// update it with [`SessionInfo::apply`], in the same transaction as the append.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The id of the session.
    pub id: Arc<str>,
    /// Number of entries in the log.
    pub entries: u64,
    /// Start of the first run in milliseconds since 1970; zero before it.
    pub started: u64,
    /// The last time in the log, in milliseconds since 1970: of an opening, the start or end of a
    /// run, or an action that became pending or was resolved. For a fork that has not been opened,
    /// it is a time of its parent, or the time of the fork if that ended a run.
    pub changed: u64,
    /// The first line of the first request, at most 120 characters; empty without a request.
    pub title: String,
    /// The session from which this one was forked, and the number of shared entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(Arc<str>, u64)>,
    /// The call that the session works for, if an agent opened it for a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_of: Option<Arc<Parent>>,
    /// The principal that owns the session, if its host named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// The run in progress, or the run that a crash interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The session's next work when it is opened; `None` if it waits for an input. An agent that
    /// [holds messages](crate::session::WhileAwaiting::Hold) does nothing for a request or a steer
    /// while actions are pending. Deadlines and waits of the pattern are left out, since they
    /// depend on the time; see [`due_at`](SessionInfo::due_at).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
    /// Number of inputs in the mailbox without a receipt. They are not in the log: a store with
    /// mailboxes sets the number with [`SessionInfo::set_unread`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u64,
    /// Tokens of all requests, as providers reported them. They include requests that a fork
    /// shares.
    #[serde(default)]
    pub usage: Usage,
    /// Cost of these requests in US dollars, as far as prices are known. The costs of a session and
    /// its forks do not add up, because shared requests count in each.
    #[serde(default)]
    pub cost: f64,
    /// The host's settings to open the session again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Arc<Value>>,
    /// The pending actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingAction>,
    /// The waits of the session's pattern; see
    /// [`StepContext::sleep_until`](crate::StepContext::sleep_until) and
    /// [`StepContext::wait_for_event`](crate::StepContext::wait_for_event).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// The signals that no wait has taken, in order of arrival.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// The reason why the session waits for a person's decision: its owners were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The owners that the session has lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) owners: Owners,
    /// The state that determines `due`.
    #[serde(default, skip_serializing_if = "Agenda::is_empty")]
    pub(crate) agenda: Agenda,
}

/// Maximum number of characters of a title.
const MAX_TITLE_CHARS: usize = 120;
/// Maximum length of a value of the settings in [`SessionInfo::brief`].
const MAX_BRIEF: usize = 1_000;

impl SessionInfo {
    /// Builds the description of a session without entries.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        SessionInfo { id: id.into(), ..Self::default() }
    }

    /// Builds the description of a session with this log.
    pub fn of(id: impl Into<Arc<str>>, entries: &[LogEntry]) -> Self {
        let mut info = Self::new(id);
        entries.iter().for_each(|entry| info.apply(entry));
        info
    }

    /// Returns whether the session belongs to a sub-agent that works for a call of `session`.
    pub fn is_sub_agent_of(&self, session: &str) -> bool {
        self.sub_agent_of.as_ref().is_some_and(|parent| *parent.session_id == *session)
    }

    /// Checks that the session does not belong to a sub-agent.
    ///
    /// # Errors
    ///
    /// Returns [`MemoryError::SubAgent`] otherwise.
    pub fn require_root(&self) -> Result<(), MemoryError> {
        match self.sub_agent_of.as_ref().and_then(|parent| parent.root.clone()) {
            Some(root) => Err(MemoryError::SubAgent { session: self.id.clone(), root }),
            None => Ok(()),
        }
    }

    /// Updates the description for the next entry of the log. The cost of an update does not depend
    /// on the length of the log.
    pub fn apply(&mut self, entry: &LogEntry) {
        self.entries += 1;
        let has_work = matches!(entry, LogEntry::Opened { .. }) && self.has_work();
        self.owners.apply(entry, self.run.is_some(), has_work);
        self.held = self.owners.held();
        if let Some((usage, cost)) = entry.charge() {
            self.usage += usage;
            add_cost(&mut self.cost, cost);
        }
        let (has_pending, has_queued) = (!self.pending.is_empty(), self.agenda.has_queued());
        waits::apply(&mut self.waits, &mut self.signals, entry, has_pending, has_queued);
        let mut asks = matches!(entry, LogEntry::CallAwaiting { .. });
        match entry {
            LogEntry::Opened { time, parent, owner, .. } => {
                self.changed = self.changed.max(*time);
                self.owner = self.owner.take().or_else(|| owner.clone());
                self.sub_agent_of = parent.clone().filter(|parent| parent.root.is_some());
            }
            LogEntry::RunStarted { run, time, .. } => {
                (self.run, self.changed) = (Some(*run), *time);
                if self.started == 0 {
                    self.started = *time;
                }
            }
            LogEntry::RunEnded { time, .. } => (self.run, self.changed) = (None, *time),
            LogEntry::Queued { message, .. } if self.title.is_empty() => {
                let text = message.text();
                self.title = text
                    .trim()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .chars()
                    .take(MAX_TITLE_CHARS)
                    .collect();
            }
            LogEntry::ChildAwaits { call, actions, time, idle } => {
                self.changed = *time;
                if *idle {
                    let is_pending = |known: &PendingAction| {
                        call_of_child(&known.action.call, call).is_none()
                            || actions.iter().any(|action| action.call == known.action.call)
                    };
                    self.pending.retain(is_pending);
                }
                for action in actions {
                    let is_known = |known: &PendingAction| known.action.call == action.call;
                    if !self.pending.iter().any(is_known) {
                        asks = true;
                        let action = ExternalAction::from_log(action);
                        let session = self.id.clone();
                        self.pending.push(PendingAction { session, since: *time, action });
                    }
                }
            }
            LogEntry::ChildEnded { call, .. } => {
                let is_other =
                    |known: &PendingAction| call_of_child(&known.action.call, call).is_none();
                self.pending.retain(is_other);
            }
            LogEntry::Settings { settings } => {
                self.settings = (!settings.is_null()).then(|| settings.clone());
            }
            LogEntry::CallAwaiting { call, name, arguments, digest, request, terms, time } => {
                self.changed = *time;
                let (call, name, arguments) = (call.clone(), name.clone(), arguments.clone());
                let action = ExternalAction::new(call, name, arguments, digest.clone());
                let action = action.request(request.clone()).terms(terms.clone());
                let action = ExternalAction::from_log(&action.into());
                self.pending.retain(|pending| pending.action.call != action.call);
                self.pending.push(PendingAction { session: self.id.clone(), since: *time, action });
            }
            LogEntry::Approved { call, digest, by, source, time, change, .. } => {
                self.changed = *time;
                let approval = ApprovalRecord {
                    by: Some(by.clone()),
                    time: *time,
                    source: source.clone(),
                    change: change.clone(),
                };
                let mut pending = self.pending.iter_mut().map(|pending| &mut pending.action);
                let is_it = |action: &&mut Arc<ExternalAction>| {
                    action.call == *call && action.is_decided_by(Some(digest))
                };
                if let Some(action) = pending.find(is_it) {
                    Arc::make_mut(action).approvals.push(approval);
                }
            }
            LogEntry::Decided { call, digest, time, .. } => {
                self.changed = *time;
                let is_it = |pending: &PendingAction| pending.action.call == *call;
                if self
                    .pending
                    .iter()
                    .any(|pending| is_it(pending) && !pending.action.is_decided_by(digest.as_ref()))
                {
                    return self.set_unread(self.unread); // it is asked again
                }
                self.pending.retain(|pending| !is_it(pending))
            }
            LogEntry::CallStarted { call, .. } => {
                self.pending.retain(|pending| pending.action.call != *call)
            }
            LogEntry::CallFinished { result } => {
                if let Some(result) = result.as_tool_result() {
                    let is_other = |pending: &PendingAction| {
                        pending.action.call != result.call
                            && call_of_child(&pending.action.call, &result.call).is_none()
                    };
                    self.pending.retain(is_other);
                }
            }
            LogEntry::Reset => self.pending.clear(),
            _ => {}
        }
        let has_pending = !self.pending.is_empty();
        self.agenda.apply(entry, self.entries, has_pending, asks);
        self.set_unread(self.unread);
    }

    /// Returns a short description, for lists. Texts in the settings are truncated to 1,000
    /// characters; other values there are left out if their JSON exceeds 1,000 bytes. Pending
    /// actions lack the arguments, the request, the data and the description. Signals lack the
    /// value. Waits that have ended are left out.
    pub fn brief(&self) -> SessionInfo {
        let brief = |pending: &PendingAction| {
            let action = &pending.action;
            let mut terms = (*action.terms).clone();
            (terms.description, terms.data) = (None, None);
            let action = ExternalAction {
                arguments: Arc::default(),
                request: None,
                terms: terms.into(),
                ..(**action).clone()
            };
            PendingAction { action: action.into(), ..pending.clone() }
        };
        let brief_wait =
            |wait: &Wait| Wait { signal: wait.signal.as_ref().map(Signal::brief), ..wait.clone() };
        let settings = self.settings.as_deref().map(brief_settings);
        SessionInfo {
            settings: settings.filter(|settings| !settings.is_null()).map(Arc::new),
            pending: self.pending.iter().map(brief).collect(),
            waits: self.waits.iter().filter(|wait| !wait.ended).map(brief_wait).collect(),
            signals: self.signals.iter().map(Signal::brief).collect(),
            ..self.clone()
        }
    }

    /// Returns the session's next work when it is opened at this time, in milliseconds since 1970:
    /// [`due`](SessionInfo::due), or [`Due::Deadline`] if the deadline of a pending action has
    /// passed, or [`Due::Wait`] if a wait of the pattern is over.
    pub fn due_at(&self, now: u64) -> Option<Due> {
        match self.due {
            due @ Some(Due::Decision | Due::Inbox) => due,
            _ if self.next_deadline().is_some_and(|next| next <= now) => Some(Due::Deadline),
            due => due.or_else(|| self.due_wait(now).map(|_| Due::Wait)),
        }
    }

    /// Returns the next time at which the session does something without an input, in milliseconds
    /// since 1970: the first deadline of its pending actions, or else the end of the pattern's next
    /// wait, which is in the past if its signal has arrived. A [held](SessionInfo::held) session
    /// does nothing.
    pub fn wakes_at(&self) -> Option<u64> {
        self.next_deadline().or_else(|| self.next_wait()?.over_at())
    }

    /// Returns the keys of the signals that the session's pattern waits for.
    pub fn awaited_signals(&self) -> impl Iterator<Item = &Arc<str>> {
        self.waits.iter().filter(|wait| wait.takes(&wait.key)).map(|wait| &wait.key)
    }

    fn next_deadline(&self) -> Option<u64> {
        if self.held.is_some() {
            return None;
        }
        self.pending.iter().filter_map(|pending| pending.action.terms.deadline).min()
    }

    /// Returns the waits that may end. A wait does not end by itself while a run is in progress or
    /// the session waits for decisions.
    fn open_waits(&self) -> impl Iterator<Item = &Wait> {
        let rests = self.held.is_none() && self.run.is_none() && self.pending.is_empty();
        let rests = rests && !self.agenda.has_decision();
        self.waits.iter().filter(move |wait| rests && !wait.ended)
    }

    /// Returns the wait that ends next at a time that is known.
    pub(crate) fn next_wait(&self) -> Option<&Wait> {
        let known = self.open_waits().filter_map(|wait| Some((wait.over_at()?, wait)));
        known.min_by_key(|(time, _)| *time).map(|(_, wait)| wait)
    }

    /// Returns a wait that is over.
    pub(crate) fn due_wait(&self, now: u64) -> Option<&Wait> {
        self.open_waits().filter(|wait| wait.is_over(now)).min_by_key(|wait| wait.over_at())
    }

    /// Returns the entries that cancel the waits and drop the signals.
    pub(crate) fn wait_cancellations(&self) -> Vec<LogEntry> {
        let open = self.waits.iter().filter(|wait| !wait.ended).map(|wait| &wait.key);
        let keys: BTreeSet<&Arc<str>> =
            open.chain(self.signals.iter().map(|signal| &signal.key)).collect();
        let cancel =
            |key: &Arc<str>| LogEntry::WaitCancelled { key: key.clone(), drops_signals: true };
        keys.into_iter().map(cancel).collect()
    }

    /// Returns whether the pattern waits for a time or a signal.
    pub(crate) fn has_wait(&self) -> bool {
        self.waits.iter().any(|wait| !wait.ended)
    }

    /// Returns whether the session has lost an owner without progress since. Its work may end the
    /// next owner's process, too, so a process continues such sessions one after the other.
    pub fn has_lost_owner(&self) -> bool {
        self.owners.is_suspect(self.has_work())
    }

    /// Returns whether the log has a run in progress or the cause of the next one.
    pub(crate) fn has_work(&self) -> bool {
        self.run.is_some() || self.next().is_some()
    }

    /// Returns whether the message of this input waits for a run.
    pub(crate) fn has_queued(&self, input: &InputId) -> bool {
        self.agenda.has(input)
    }

    /// Returns the work that starts the next run, and the message that starts it, if one does.
    pub(crate) fn next(&self) -> Option<(Due, Option<&InputId>)> {
        self.agenda.next(!self.pending.is_empty())
    }

    /// Returns the pending action of this call.
    pub(crate) fn action(&self, call: &str) -> Option<&Arc<ExternalAction>> {
        let mut actions = self.pending.iter().map(|pending| &pending.action);
        actions.find(|action| *action.call == *call)
    }

    /// Sets the number of inputs that wait in the mailbox of the session. They are due, unless the
    /// session has other work, after which it reads its mailbox.
    pub fn set_unread(&mut self, unread: u64) {
        self.unread = unread;
        let due = match self.run {
            _ if self.held.is_some_and(|held| unread <= held.unread) => {
                self.due = None;
                return;
            }
            _ if self.held.is_some() => None,
            Some(_) => Some(Due::Interrupted),
            None => self.next().map(|(due, _)| due),
        };
        let waits = matches!(due, None | Some(Due::Interrupted));
        self.due = if waits && unread > 0 { Some(Due::Inbox) } else { due };
    }
}

/// Returns the settings without long values.
fn brief_settings(settings: &Value) -> Value {
    let Value::Object(settings) = settings else { return brief_value(settings) };
    let settings = settings.iter().map(|(name, value)| (name.clone(), brief_value(value)));
    settings.filter(|(_, value)| !value.is_null()).collect()
}

fn brief_value(value: &Value) -> Value {
    match value {
        Value::String(text) => text.chars().take(MAX_BRIEF).collect::<String>().into(),
        value if value.to_string().len() > MAX_BRIEF => Value::Null,
        value => value.clone(),
    }
}

fn is_default(owners: &Owners) -> bool {
    *owners == Owners::default()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::input::{QueueKind, Urgency};
    use crate::event::outcome::{RunCause, RunStatus};
    use crate::log::session_log::SessionLog;
    use crate::message::{
        AssistantMessage, ContentPart, Message, MessageId, ToolCall, UserMessage,
    };

    fn queued(input: &str, kind: QueueKind) -> LogEntry {
        let message = Message::new(MessageId(1), UserMessage::from("x"));
        let (input, urgency) = (input.into(), Urgency::default());
        LogEntry::Queued {
            input,
            kind,
            urgency,
            message: message.into(),
            output: None,
            principal: None,
        }
    }

    fn started(input: &str) -> LogEntry {
        LogEntry::RunStarted {
            run: RunId(1),
            cause: RunCause::UserRequest(input.into()),
            time: 1,
            trace: None,
        }
    }

    fn ended(handed_back: Vec<InputId>) -> LogEntry {
        LogEntry::RunEnded {
            run: RunId(1),
            end: RunStatus::Aborted,
            time: 1,
            error: None,
            model_error: None,
            limit: None,
            value: None,
            handed_back,
        }
    }

    fn replied(calls: &[&str], cost: Option<f64>) -> LogEntry {
        let call = |id: &&str| ContentPart::ToolCall(ToolCall::new(*id, "t", "{}"));
        let reply = AssistantMessage::new(calls.iter().map(call).collect());
        LogEntry::Replied { message: Message::new(MessageId(2), reply).into(), cost }
    }

    /// Builds the description of a log, and checks that its actions are the log's.
    fn described(entries: &[LogEntry]) -> SessionInfo {
        let (info, log) = (SessionInfo::of("s", entries), SessionLog::of(entries));
        let actions = info.pending.iter().map(|pending| (*pending.action).clone());
        assert_eq!(actions.collect::<Vec<_>>(), log.pending());
        let stored = serde_json::to_string(&info).unwrap();
        assert_eq!(serde_json::from_str::<SessionInfo>(&stored).unwrap(), info);
        info
    }

    /// C280
    #[test]
    fn a_brief_description_is_short_and_says_the_rest() {
        let long = "é".repeat(4_000_000);
        let settings = serde_json::json!({
            "name": "Sheep", "system": long, "list": vec!["x"; 1_000], "turns": 3, "none": null,
        });
        let mut log = vec![
            LogEntry::Settings { settings: settings.into() },
            started("i"),
            replied(&["c"], Some(0.5)),
        ];
        let call = "c".into();
        let terms = Arc::new(crate::tool::ActionOptions::new().description(long.clone()).terms(7));
        log.push(LogEntry::CallAwaiting {
            call,
            name: "send".into(),
            arguments: serde_json::json!({ "to": long }).into(),
            digest: "d".into(),
            request: None,
            terms,
            time: 7,
        });
        let whole = SessionInfo::of("s", &log);
        let brief = whole.brief();
        assert!(serde_json::to_string(&brief).unwrap().len() < 4_000);
        let settings = serde_json::json!({
            "name": "Sheep", "system": "é".repeat(1_000), "turns": 3,
        });
        assert_eq!(brief.settings.as_deref(), Some(&settings));
        let (action, brief_action) = (&whole.pending[0].action, &brief.pending[0].action);
        assert_eq!((&brief_action.call, &brief_action.name), (&action.call, &action.name));
        assert_eq!((brief_action.terms.quorum, &brief_action.digest), (1, &action.digest));
        let rest = |info: &SessionInfo| SessionInfo {
            settings: None,
            pending: Vec::new(),
            ..info.clone()
        };
        assert_eq!((rest(&brief), brief.due_at(9)), (rest(&whole), whole.due_at(9)));
        assert_eq!(brief.brief(), brief);
    }

    #[test]
    fn costs_stay_finite() {
        let log = [replied(&[], Some(f64::MAX)), replied(&[], Some(f64::MAX)), ended(vec![])];
        assert_eq!(described(&log).cost, f64::MAX);
        let events = serde_json::to_string(&SessionLog::events("s", &log)).unwrap();
        serde_json::from_str::<Vec<crate::event::Envelope>>(&events).unwrap();
    }

    #[test]
    fn null_removes_the_settings() {
        let settings = |value: Value| LogEntry::Settings { settings: value.into() };
        assert_eq!(described(&[settings(1.into()), settings(Value::Null)]).settings, None);
    }

    #[test]
    fn a_call_waits_once_and_not_after_its_start() {
        let awaiting = LogEntry::CallAwaiting {
            call: "c".into(),
            name: "t".into(),
            arguments: Arc::default(),
            digest: "d".into(),
            request: None,
            terms: Arc::default(),
            time: 1,
        };
        let start = LogEntry::CallStarted { call: "c".into(), arguments: Arc::default() };
        let log = [replied(&["c"], None), awaiting.clone(), awaiting, start];
        assert_eq!(described(&log[..3]).pending.len(), 1);
        assert_eq!(described(&log).pending, []);
    }

    #[test]
    fn a_steer_starts_a_run_only_while_an_action_is_pending() {
        let log = [replied(&["c"], None), queued("i", QueueKind::Steering)];
        assert_eq!(described(&log).due, None);
    }

    #[test]
    fn a_request_that_is_handed_back_leaves_the_queue() {
        let log = [queued("i", QueueKind::Request), started("i"), ended(vec!["i".into()])];
        assert_eq!(described(&log).due, None);
    }

    #[test]
    fn a_run_takes_no_steer_as_its_request() {
        let log = [queued("i", QueueKind::Steering), started("i")];
        let branch = SessionLog::branch(&log, None).log(log.to_vec());
        assert!(SessionLog::of(&branch).waiting().is_empty());
        described(&branch);
    }
}
