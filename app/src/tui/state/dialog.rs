//! Pending calls, shown one at a time until the user has decided about each.

mod keys;
mod options;

use std::collections::HashSet;
use std::sync::Arc;

use loopwright_core::event::ExternalAction;
use loopwright_core::message::CallId;
use loopwright_core::tool::{ApprovalRecord, DecisionKind, Question};
use serde_json::Value;

pub(crate) use self::options::Options;
use super::effect::Effect;
use super::prompt::Prompt;

/// Time for which keys are ignored after a call is presented, and after each key in this time, in
/// milliseconds. Such keys were meant for the previous screen. It is longer than terminals wait
/// before a held key repeats.
const IGNORE_KEYS_MS: u64 = 700;

/// The pending calls.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    /// The calls as they would run; some with the user's arguments.
    actions: Vec<ExternalAction>,
    changed: HashSet<CallId>,
    /// The number of calls added since none was pending.
    total: usize,
    pub(crate) mode: Mode,
    /// The mode to return to from the reason for a denial.
    before_reason: Mode,
    /// The question of the current call, if it asks one.
    question: Option<Question>,
    /// `true` if the dialog is closed while the user writes something else.
    pub(crate) detached: bool,
    /// The reason why the last decision was refused.
    pub(crate) problem: Option<String>,
    /// `true` once a decision was sent.
    pub(crate) sent: bool,
    /// The change that the current call would make to a file, or the reason why it has no preview.
    preview: Option<Result<String, String>>,
    /// A counter of changes in how the call is shown.
    pub(crate) revision: u64,
    ignore_keys_until: u64,
    /// Letters typed while keys were ignored.
    early: String,
}

/// The input that the dialog takes.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    /// One of the answers.
    #[default]
    Choose,
    /// The reason for a denial.
    Reason(Prompt),
    /// Other arguments, as JSON.
    Edit(Prompt),
    /// The input of a suspended tool, or the answer to a question.
    Answer(Prompt),
    /// The options of a question.
    Options(Options),
}

impl Dialog {
    /// Returns the current call.
    pub(crate) fn current(&self) -> Option<&ExternalAction> {
        self.actions.first()
    }

    /// Returns whether the dialog is visible and receives the keys.
    pub(crate) fn is_open(&self) -> bool {
        !self.detached && !self.actions.is_empty()
    }

    /// Iterates over the pending calls.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &ExternalAction> {
        self.actions.iter()
    }

    /// Returns whether the current call allows this decision.
    pub(crate) fn allows(&self, kind: DecisionKind) -> bool {
        self.current().is_some_and(|action| action.terms.allows(kind))
    }

    /// Adds an approval to a call that needs more of them.
    pub(crate) fn approved(&mut self, call: &CallId, approval: &ApprovalRecord) {
        if let Some(action) = self.actions.iter_mut().find(|action| action.call == *call) {
            action.approvals.push(approval.clone());
            self.sent = false;
            self.revision += 1;
        }
    }

    /// Returns the question that the current call asks, or `None` if it is not a question.
    pub(crate) fn question(&self) -> Option<&Question> {
        self.question.as_ref()
    }

    /// Returns the number of pending calls.
    pub(crate) fn waiting(&self) -> usize {
        self.actions.len()
    }

    /// Returns the number of the current call, and the total.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.total + 1 - self.actions.len().min(self.total), self.total)
    }

    /// Returns whether the user has changed the arguments of a call.
    pub(crate) fn is_changed(&self, call: &CallId) -> bool {
        self.changed.contains(call)
    }

    /// Returns the diff of the current call, or the reason why it has none, once known.
    pub(crate) fn preview(&self) -> Option<&Result<String, String>> {
        self.preview.as_ref()
    }

    /// Returns whether keys are ignored.
    pub(crate) fn ignores_keys(&self, now: u64) -> bool {
        self.is_open() && now < self.ignore_keys_until
    }

    /// Returns whether keys were ignored before and no longer are.
    pub(crate) fn starts_taking_keys(&self, before: u64, now: u64) -> bool {
        self.ignores_keys(before) && !self.ignores_keys(now)
    }

    /// Removes all calls, since another session is open.
    pub(crate) fn clear(&mut self) {
        *self = Dialog { revision: self.revision + 1, ..Dialog::default() };
    }

    /// Adds a pending call. With `typing`, the dialog does not take the keys from the prompt.
    pub(crate) fn open(&mut self, action: &ExternalAction, now: u64, typing: bool) -> Vec<Effect> {
        if self.actions.iter().any(|open| open.call == action.call) {
            return Vec::new();
        }
        if self.actions.is_empty() {
            self.total = 0;
            self.detached = typing;
        }
        self.total += 1;
        self.actions.push(action.clone());
        if self.actions.len() == 1 { self.present(now) } else { Vec::new() }
    }

    /// Removes a call, and the actions of the sub-agent that works for it.
    pub(crate) fn close(&mut self, call: &CallId, now: u64) -> Vec<Effect> {
        let is_of_call = |other: &CallId| {
            other.strip_prefix(&**call).is_some_and(|rest| rest.is_empty() || rest.starts_with('~'))
        };
        let first = self.current().is_some_and(|action| is_of_call(&action.call));
        self.actions.retain(|action| !is_of_call(&action.call));
        self.changed.retain(|changed| !is_of_call(changed));
        if first { self.present(now) } else { Vec::new() }
    }

    /// Presents the first pending call.
    fn present(&mut self, now: u64) -> Vec<Effect> {
        let suspended = self.current().is_some_and(|action| action.request.is_some());
        self.question = self.current().and_then(ExternalAction::question);
        self.mode = match &self.question {
            _ if !suspended => Mode::Choose,
            Some(question) if question.is_secret() => Mode::Answer(Prompt::secret()),
            Some(question) => {
                Options::of(question).map_or_else(|| Mode::Answer(Prompt::default()), Mode::Options)
            }
            None => Mode::Answer(Prompt::default()),
        };
        self.before_reason = Mode::Choose;
        self.problem = None;
        self.sent = false;
        self.preview = None;
        self.revision += 1;
        self.ignore_keys(now);
        self.refresh_preview()
    }

    /// Opens the dialog again.
    pub(crate) fn reattach(&mut self, now: u64) -> Vec<Effect> {
        self.detached = false;
        self.ignore_keys(now);
        self.refresh_preview()
    }

    /// Requests the diff of the current call again, since files may have changed.
    pub(crate) fn refresh_preview(&self) -> Vec<Effect> {
        self.current().filter(|_| !self.sent).map(preview).unwrap_or_default()
    }

    fn ignore_keys(&mut self, now: u64) {
        self.ignore_keys_until = now + IGNORE_KEYS_MS;
        self.early.clear();
    }

    /// Sets the diff of the current call, unless it was computed for other arguments.
    pub(crate) fn previewed(
        &mut self,
        action: &ExternalAction,
        diff: Result<String, String>,
        now: u64,
    ) {
        let same = |open: &ExternalAction| {
            open.call == action.call && Arc::ptr_eq(&open.arguments, &action.arguments)
        };
        if !self.current().is_some_and(same) || self.preview.as_ref() == Some(&diff) {
            return;
        }
        if self.preview.replace(diff).is_some() {
            self.ignore_keys(now); // the next key was meant for the previous diff
        }
        self.revision += 1;
    }

    /// Shows why a decision was refused. With `typing`, a closed dialog stays closed.
    pub(crate) fn refused(&mut self, call: &CallId, why: String, now: u64, typing: bool) {
        if self.current().is_some_and(|action| action.call == *call) {
            self.problem = Some(why);
            self.sent = false;
            self.detached = self.detached && typing;
            self.ignore_keys(now);
        }
    }

    /// Sets the arguments from the editor. The call is presented as it would run now.
    pub(crate) fn edited(&mut self, call: &CallId, json: &str, now: u64) -> Vec<Effect> {
        self.ignore_keys(now);
        let Some(action) = self.actions.first_mut().filter(|action| action.call == *call) else {
            return Vec::new();
        };
        match serde_json::from_str::<Value>(json) {
            Ok(arguments) => {
                if *action.arguments != arguments {
                    action.arguments = Arc::new(arguments);
                    self.changed.insert(call.clone());
                    self.preview = None;
                    self.revision += 1;
                }
                self.mode = Mode::Choose;
                self.problem = None;
                preview(action)
            }
            Err(why) => {
                self.problem = Some(format!("The new arguments are not JSON: {why}."));
                Vec::new()
            }
        }
    }

    /// Edits the arguments in the dialog, since no editor is set.
    pub(crate) fn edit_inline(&mut self, call: &CallId, json: &str) {
        if self.current().is_some_and(|action| action.call == *call) {
            self.mode = Mode::Edit(Prompt::new(json));
        }
    }

    /// Returns the text input of the current mode, if any.
    pub(crate) fn input_mut(&mut self) -> Option<&mut Prompt> {
        match &mut self.mode {
            Mode::Choose | Mode::Options(_) => None,
            Mode::Reason(text) | Mode::Edit(text) | Mode::Answer(text) => Some(text),
        }
    }

    /// Clears the text input. Returns whether it had text.
    pub(crate) fn clear_input(&mut self) -> bool {
        let sent = self.sent;
        self.input_mut().is_some_and(|text| !sent && !text.take().is_empty())
    }

    /// Returns the text typed while keys were ignored, which belongs into the prompt. Returns
    /// `None` if it was one held key.
    pub(crate) fn take_early_text(&mut self) -> Option<String> {
        let mut letters = self.early.chars();
        let first = letters.next()?;
        if letters.all(|letter| letter == first) {
            return None;
        }
        self.detached = true;
        Some(std::mem::take(&mut self.early))
    }
}

/// Requests the diff of a call that waits for an approval.
fn preview(action: &ExternalAction) -> Vec<Effect> {
    let is_approval = action.request.is_none();
    if is_approval { vec![Effect::Preview(Box::new(action.clone()))] } else { Vec::new() }
}
