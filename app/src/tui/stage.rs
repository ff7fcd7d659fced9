//! A stage for tests: a real session with a scripted model, its events folded into the state, and
//! the view of it on a screen that is only text; or one whose events were recorded. Time goes on
//! when the test says so.

mod dialogs;
mod perf;
mod recorded;
mod screens;
mod sizes;
mod states;

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loopwright_core::event::Envelope;
use loopwright_core::message::Usage;
use loopwright_core::model::ModelInfo;
use loopwright_core::testing::{Harness, Script};
use loopwright_core::{AgentBuilder, AgentEvent};
use loopwright_patterns::PiPattern;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier, Style};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr;

use super::effects::{News, say};
use super::paint::{self, Theme};
use super::state::{Effect, Opened, State, Told};
use super::view::View;

/// The sizes that are looked at.
pub(super) const USUAL: (u16, u16) = (80, 24);
pub(super) const NARROW: (u16, u16) = (40, 20);
pub(super) const WIDE: (u16, u16) = (200, 60);

/// When the tests begin.
const BEGIN: u64 = 1_700_000_000_000;

/// What is under test.
pub(super) struct Stage {
    pub(super) harness: Harness,
    pub(super) state: State,
    pub(super) view: View,
    size: (u16, u16),
    /// What was wanted of the outside and could not be had from the session.
    pub(super) wanted: Vec<Effect>,
}

impl Stage {
    /// A session with these replies, opened; `options` sets tools and all else.
    pub(super) async fn new(
        size: (u16, u16),
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let harness = Harness::new(PiPattern, replies, options).await;
        let mut stage = Stage::before(size, harness);
        stage.open(ModelInfo::new("test/scripted").with_context_window(200_000)).await;
        stage
    }

    /// Before the session is open.
    pub(super) fn before(size: (u16, u16), harness: Harness) -> Self {
        paint::load(); // program text looks the same in each run
        let mut state = State::new(BEGIN);
        state.resize(size.0, size.1);
        state.status.root = "/home/ada/engine".into();
        Stage { harness, state, view: View::new(Theme::ansi()), size, wanted: Vec::new() }
    }

    /// The session is open, with this model.
    pub(super) async fn open(&mut self, model: ModelInfo) {
        let opened = Opened {
            state: self.harness.handle.state().await.unwrap(),
            model,
            kept: true,
            root: "/home/ada/engine".into(),
            usage: Usage::default(),
            cost: 0.0,
            same: false,
        };
        self.told(Told::Opened(Box::new(opened))).await;
    }

    pub(super) async fn told(&mut self, told: Told) {
        let effects = self.state.told(told);
        self.perform(effects).await;
    }

    // ---- keys ------------------------------------------------------------------------------------

    /// Types this.
    pub(super) async fn types(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter)).await;
        }
    }

    /// Types this, and Enter.
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

    /// Does what the session and the view can do; the rest is kept in `wanted`.
    async fn perform(&mut self, effects: Vec<Effect>) {
        let (news, mut heard) = mpsc::unbounded_channel();
        for effect in effects {
            let told = match effect {
                Effect::Scroll(how) => {
                    self.view.scroll(&self.state, how);
                    None
                }
                Effect::Prompt(_)
                | Effect::Steer(_)
                | Effect::FollowUp(_)
                | Effect::TakeBack
                | Effect::Abort
                | Effect::Continue
                | Effect::Compact(_)
                | Effect::Decide { .. } => {
                    say(self.harness.handle.clone(), effect, news.clone()).await
                }
                other => {
                    self.wanted.push(other);
                    None
                }
            };
            if let Some(told) = told {
                Box::pin(self.told(told)).await;
            }
        }
        while let Ok(News::Told(told)) = heard.try_recv() {
            Box::pin(self.told(told)).await;
        }
    }

    // ---- events and time -------------------------------------------------------------------------

    /// So much time goes by.
    pub(super) fn wait(&mut self, time: Duration) {
        let now = self.state.now + u64::try_from(time.as_millis()).unwrap();
        self.state.tick(now);
    }

    /// Takes in events up to the first for which this holds.
    pub(super) async fn until(&mut self, stop: impl Fn(&AgentEvent) -> bool) {
        loop {
            let event = self.harness.events.next().await.expect("the event comes");
            self.take(&event).await;
            if stop(&event.event) {
                return;
            }
        }
    }

    /// Takes in events up to the end of the run.
    pub(super) async fn run_end(&mut self) {
        self.until(|event| matches!(event, AgentEvent::AgentEnd(_))).await;
    }

    async fn take(&mut self, event: &Arc<Envelope>) {
        let event = Envelope { time: self.state.now, ..(**event).clone() };
        let effects = self.state.event(&event);
        self.perform(effects).await;
    }

    // ---- the screen ------------------------------------------------------------------------------

    /// The screen has another size.
    pub(super) fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.state.resize(size.0, size.1);
    }

    /// What is on the screen.
    pub(super) fn buffer(&mut self) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        terminal.draw(|frame| self.view.draw(&self.state, frame)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Its text, line by line.
    pub(super) fn screen(&mut self) -> String {
        let buffer = self.buffer();
        let rows = buffer.content.chunks(usize::from(self.size.0));
        rows.map(|row| format!("{}\n", letters(row).trim_end())).collect()
    }

    /// The same with the styles, as `<cyan bold:text>`.
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

/// What stands in these cells; the one after a wide letter is a part of it.
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
