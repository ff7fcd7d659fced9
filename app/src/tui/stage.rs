//! A stage for tests: a real session with a scripted model, or recorded events, applied to the
//! state and drawn on a text screen. The test controls the time.

mod dialogs;
mod perf;
mod questions;
mod recorded;
mod screens;
mod sizes;
mod stages;
mod states;
mod sub_agents;
mod todos;

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loopwright_core::event::Envelope;
use loopwright_core::log::{InMemory, InMemoryStore};
use loopwright_core::message::Usage;
use loopwright_core::model::ModelInfo;
use loopwright_core::testing::{Harness, Script, ScriptedModel, TestClock};
use loopwright_core::{AgentBuilder, AgentEvent, GenericAgent, RunContext};
use loopwright_patterns::PiPattern;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier, Style};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr;

use super::effects::{Msg, send_input};
use super::paint::{self, Theme};
use super::state::{Effect, Opened, Outcome, State};
use super::view::View;

/// The sizes of the snapshots.
pub(super) const USUAL: (u16, u16) = (80, 24);
pub(super) const NARROW: (u16, u16) = (40, 20);
pub(super) const WIDE: (u16, u16) = (200, 60);

/// The time at which tests start.
const BEGIN: u64 = 1_700_000_000_000;

/// The system under test.
pub(super) struct Stage {
    pub(super) harness: Harness,
    pub(super) state: State,
    pub(super) view: View,
    size: (u16, u16),
    /// Requested effects that the session and the view cannot perform.
    pub(super) wanted: Vec<Effect>,
}

impl Stage {
    /// Opens a session with these replies; `options` sets tools and everything else.
    pub(super) async fn new(
        size: (u16, u16),
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let harness = Harness::new(PiPattern, replies, options).await;
        Stage::of(size, harness).await
    }

    /// Opens a session as [`Stage::new`] does, in a store, which sub-agents need.
    pub(super) async fn stored(
        size: (u16, u16),
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        Stage::of(size, stored(replies, options).await).await
    }

    async fn of(size: (u16, u16), harness: Harness) -> Self {
        let mut stage = Stage::before(size, harness);
        stage.open(ModelInfo::new("test/scripted").with_context_window(200_000)).await;
        stage
    }

    /// Creates the stage before the session is open.
    pub(super) fn before(size: (u16, u16), harness: Harness) -> Self {
        paint::load(); // program text looks the same in each run
        let mut state = State::new(BEGIN);
        state.resize(size.0, size.1);
        state.status.root = "/home/ada/engine".into();
        Stage { harness, state, view: View::new(Theme::ansi()), size, wanted: Vec::new() }
    }

    /// Opens the session with this model.
    pub(super) async fn open(&mut self, model: ModelInfo) {
        let opened = Opened {
            state: self.harness.handle.state().await.unwrap(),
            model,
            is_persistent: true,
            root: "/home/ada/engine".into(),
            usage: Usage::default(),
            cost: 0.0,
            distils: false,
            is_attached: false,
            same: false,
        };
        self.outcome(Outcome::Opened(Box::new(opened))).await;
    }

    pub(super) async fn outcome(&mut self, outcome: Outcome) {
        let effects = self.state.outcome(outcome);
        self.perform(effects).await;
    }

    // ---- keys -----------------------------------------------------------------------------------

    /// Types a text.
    pub(super) async fn types(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter)).await;
        }
    }

    /// Types a text and presses Enter.
    pub(super) async fn enter(&mut self, text: &str) {
        self.types(text).await;
        self.press(KeyCode::Enter).await;
    }

    pub(super) async fn press(&mut self, key: KeyCode) {
        self.press_with(KeyModifiers::NONE, key).await;
    }

    pub(super) async fn control(&mut self, key: char) {
        self.press_with(KeyModifiers::CONTROL, KeyCode::Char(key)).await;
    }

    pub(super) async fn alt(&mut self, key: KeyCode) {
        self.press_with(KeyModifiers::ALT, key).await;
    }

    async fn press_with(&mut self, modifiers: KeyModifiers, key: KeyCode) {
        let effects = self.state.key(KeyEvent::new(key, modifiers));
        self.perform(effects).await;
    }

    /// Performs the effects of the session and the view; the rest is collected in `wanted`.
    async fn perform(&mut self, effects: Vec<Effect>) {
        let (msgs, mut msg_rx) = mpsc::unbounded_channel();
        for effect in effects {
            let outcome = match effect {
                Effect::Scroll(how) => {
                    self.view.scroll(&self.state, how);
                    None
                }
                Effect::Prompt(_)
                | Effect::Steer(_)
                | Effect::FollowUp(_)
                | Effect::TakeBack
                | Effect::Abort(_)
                | Effect::Continue
                | Effect::Compact(_)
                | Effect::Decide { .. } => {
                    send_input(self.harness.handle.clone(), effect, msgs.clone()).await
                }
                other => {
                    self.wanted.push(other);
                    None
                }
            };
            if let Some(outcome) = outcome {
                Box::pin(self.outcome(outcome)).await;
            }
        }
        while let Ok(Msg::Outcome(outcome)) = msg_rx.try_recv() {
            Box::pin(self.outcome(outcome)).await;
        }
    }

    // ---- events and time ------------------------------------------------------------------------

    /// Advances the time.
    pub(super) fn wait(&mut self, time: Duration) {
        let now = self.state.now + u64::try_from(time.as_millis()).unwrap();
        self.state.tick(now);
    }

    /// Handles events up to the first that matches.
    pub(super) async fn until(&mut self, stop: impl Fn(&AgentEvent) -> bool) {
        loop {
            let event = self.harness.events.next().await.expect("the event comes");
            self.take(&event).await;
            if stop(&event.event) {
                return;
            }
        }
    }

    /// Handles events up to the end of the run.
    pub(super) async fn run_end(&mut self) {
        self.until(|event| matches!(event, AgentEvent::AgentEnd(_))).await;
    }

    async fn take(&mut self, event: &Arc<Envelope>) {
        let mut event = (**event).clone();
        event.time = self.state.now;
        let effects = self.state.event(&event);
        self.perform(effects).await;
    }

    // ---- the screen -----------------------------------------------------------------------------

    /// Resizes the screen.
    pub(super) fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.state.resize(size.0, size.1);
    }

    /// Draws the screen.
    pub(super) fn buffer(&mut self) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        terminal.draw(|frame| self.view.draw(&self.state, frame)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Returns the text of the screen, line by line.
    pub(super) fn screen(&mut self) -> String {
        let buffer = self.buffer();
        let rows = buffer.content.chunks(usize::from(self.size.0));
        rows.map(|row| format!("{}\n", letters(row).trim_end())).collect()
    }

    /// Returns the text with styles, as `<cyan bold:text>`.
    pub(super) fn styled(&mut self) -> String {
        let buffer = self.buffer();
        let mut text = String::new();
        for row in buffer.content.chunks(usize::from(self.size.0)) {
            let end = row.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |at| at + 1);
            for run in row[..end].chunk_by(|a, b| name(a.style()) == name(b.style())) {
                let words = letters(run);
                match name(run[0].style()) {
                    style if style.is_empty() || words.trim().is_empty() => text.push_str(&words),
                    style => text.push_str(&format!("<{style}:{words}>")),
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Opens a session in a store, which sub-agents need.
async fn stored(
    replies: impl IntoIterator<Item = Script>,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let model = ScriptedModel::new(replies);
    let builder = GenericAgent::builder(model.clone(), PiPattern);
    let clock = TestClock::default();
    let agent = options(builder.environment(clock.clone())).build().unwrap();
    let context = RunContext::new().stored(&InMemoryStore::new(), "s").await.unwrap();
    let (handle, events) = agent.run(context).await.unwrap();
    Harness { handle, events, model, agent, memory: InMemory::new(), clock }
}

/// Returns the text of cells; the cell after a wide letter belongs to it.
fn letters(cells: &[Cell]) -> String {
    let (mut text, mut cells) = (String::new(), cells.iter());
    while let Some(cell) = cells.next() {
        text.push_str(cell.symbol());
        for _ in 1..cell.symbol().width() {
            cells.next();
        }
    }
    text
}

fn name(style: Style) -> String {
    let colour = style
        .fg
        .filter(|colour| *colour != Color::Reset)
        .map(|colour| format!("{colour:?}").to_lowercase());
    let modifiers = [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::ITALIC, "italic"),
        (Modifier::UNDERLINED, "underlined"),
        (Modifier::REVERSED, "reversed"),
        (Modifier::CROSSED_OUT, "struck"),
    ];
    let words = modifiers
        .into_iter()
        .filter(|(one, _)| style.add_modifier.contains(*one))
        .map(|(_, word)| word.into());
    colour.into_iter().chain(words).collect::<Vec<String>>().join(" ")
}
