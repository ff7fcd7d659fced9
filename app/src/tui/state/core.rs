//! [`State`]: everything that is shown, and the transitions shared by several inputs.

use loopwright_core::event::{QueueKind, QueuedText};
use loopwright_core::log::Stage;
use loopwright_core::message::{InputId, RunId};

use super::dialog::Dialog;
use super::effect::{Choice, Effect, Scroll, Tone};
use super::popup::{Known, Popup};
use super::prompt::Prompt;
use super::status::{Activity, Run, Status};
use super::transcript::Transcript;

/// The notice for an input that needs a session when none is open.
const NO_SESSION_HELP: &str = "No conversation is open: `/model` selects a model, `/sessions` \
                               opens a conversation, `/new` starts one.";

/// Everything that is shown.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) transcript: Transcript,
    pub(crate) prompt: Prompt,
    pub(crate) dialog: Dialog,
    pub(crate) popup: Option<Popup>,
    pub(crate) status: Status,
    pub(crate) run: Run,
    /// `true` while another session is being opened. Facts may still be distilled from the current
    /// one, so `run` changes meanwhile.
    pub(crate) is_opening: bool,
    /// The run of the last event.
    pub(crate) last_run: Option<RunId>,
    pub(crate) queues: Queues,
    /// The stages of the pattern's work.
    pub(crate) stages: Vec<Stage>,
    /// `true` if results are open unless the user has closed them individually.
    pub(crate) open_results: bool,
    /// `true` if thoughts are open unless the user has closed them individually.
    pub(crate) open_thoughts: bool,
    /// The id of the selected block.
    pub(crate) selected: Option<u64>,
    /// The time until which a second Ctrl-C quits.
    pub(crate) quit_deadline: Option<u64>,
    /// The current time, in milliseconds since 1970.
    pub(crate) now: u64,
    /// Columns and lines of the screen.
    pub(crate) size: (u16, u16),
    /// `true` if this session contains a user message.
    pub(crate) has_user_message: bool,
    /// `true` if facts can be distilled from the conversation.
    pub(super) distils: bool,
    pub(super) known: Known,
    /// The names of the app's own commands, and their descriptions in `/help`.
    pub(crate) own_commands: Vec<Choice>,
    /// `true` if the agent had nothing left to do when the last run ended.
    pub(super) has_finished: bool,
    /// The length of the transcript when the session being opened was requested.
    pub(super) opening_from: usize,
    /// The text for which the user closed the popup.
    pub(super) dismissed: Option<String>,
    /// The reason why no session is open.
    pub(super) closed: String,
    /// `true` if the prompt is submitted as soon as a session is open.
    pub(super) submit_on_open: bool,
}

/// Texts of the queued messages, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Queues(Vec<QueuedText>);

impl Queues {
    /// Creates the queues with the messages of both.
    pub(crate) fn new(steering: &[QueuedText], follow_up: &[QueuedText]) -> Self {
        Queues([steering, follow_up].concat())
    }

    pub(crate) fn update(&mut self, added: Option<&QueuedText>, removed: &[InputId]) {
        self.0.retain(|queued| !removed.contains(&queued.input));
        self.0.extend(added.cloned());
    }

    /// Returns the texts of a queue.
    pub(crate) fn texts(&self, queue: QueueKind) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |queued| queued.queue == queue).map(|queued| &*queued.text)
    }

    /// Returns whether no message is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl State {
    /// Returns the state before a session is open.
    pub(crate) fn new(now: u64) -> Self {
        State { now, is_opening: true, ..State::default() }
    }

    /// Returns whether a run is in progress, according to the events so far.
    pub(crate) fn is_working(&self) -> bool {
        matches!(self.run, Run::Working { .. })
    }

    /// Advances the time. Returns whether the display changes.
    pub(crate) fn tick(&mut self, now: u64) -> bool {
        let before = std::mem::replace(&mut self.now, now);
        if self.quit_deadline.is_some_and(|until| now >= until) {
            self.quit_deadline = None;
            return true;
        }
        self.dialog.starts_taking_keys(before, now)
            || (self.is_animating() && before / 100 != now / 100)
    }

    /// Returns whether the display changes as time passes.
    pub(crate) fn needs_ticks(&self) -> bool {
        self.is_animating() || self.quit_deadline.is_some() || self.dialog.ignores_keys(self.now)
    }

    fn is_animating(&self) -> bool {
        self.is_opening || self.is_working()
    }

    /// Sets the size of the screen.
    pub(crate) fn resize(&mut self, columns: u16, lines: u16) {
        self.size = (columns, lines);
    }

    /// Returns the width of text inputs, in columns.
    pub(crate) fn input_width(&self) -> u16 {
        self.size.0.saturating_sub(4).max(1)
    }

    /// Shows a notice that answers an input.
    pub(super) fn notice(&mut self, text: &str) -> Vec<Effect> {
        self.transcript.notice(Tone::Loud, text);
        vec![Effect::Scroll(Scroll::Bottom)]
    }

    /// Shows why no session is open and what the user can do. Repeated for each input that needs
    /// one.
    pub(super) fn notice_closed(&mut self) -> Vec<Effect> {
        self.transcript.push_notice(Tone::Error, self.closed.clone());
        self.transcript.push_notice(Tone::Loud, NO_SESSION_HELP);
        vec![Effect::Scroll(Scroll::Bottom)]
    }

    /// Requests a session, or the current one with other options.
    pub(super) fn request_session(&mut self, effect: Effect) -> Vec<Effect> {
        self.opening_from = self.transcript.entries().len();
        self.is_opening = true;
        vec![effect]
    }

    /// Marks a run as in progress after sending an input that starts one.
    pub(super) fn start_working(&mut self) {
        if !self.is_working() {
            self.run =
                Run::Working { since: self.now, activity: Activity::Requesting, stopping: false };
        }
    }

    /// Starts a run with a request.
    pub(super) fn request(&mut self, text: String) -> Vec<Effect> {
        self.start_working();
        self.last_run = None; // its run has no number yet
        self.has_user_message = true;
        vec![Effect::Prompt(text)]
    }

    /// Requests to continue if messages were queued too late for a run that ended well.
    pub(super) fn continue_queued(&mut self) -> Vec<Effect> {
        let ended = self.has_finished && self.run == Run::Idle && !self.is_opening;
        if !self.queues.is_empty() && ended && self.dialog.waiting() == 0 {
            self.start_working();
            self.last_run = None;
            return vec![Effect::Continue];
        }
        Vec::new()
    }

    /// Puts undelivered texts back into the prompt, before the text that is already there.
    pub(super) fn restore_to_prompt(&mut self, texts: &[String]) {
        let written = self.prompt.take();
        let all = texts.iter().map(String::as_str).chain([written.as_str()]);
        let all: Vec<&str> = all.filter(|text| !text.trim().is_empty()).collect();
        self.prompt.set(&all.join("\n"));
    }
}
