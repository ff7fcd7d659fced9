//! The terminal interface: one loop that receives keys, the agent's events and the outcomes of
//! effects, and draws at most sixty times a second. The state ([`state`]) follows from what the
//! loop receives; the view ([`view`]) is a function of the state.

mod effects;
mod keys;
mod paint;
mod screen;
mod signals;
#[cfg(test)]
mod stage;
mod state;
#[cfg(all(test, unix))]
mod tests;
mod view;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::Event;
use futures::FutureExt;
use loopwright_core::event::{Envelope, StreamEnd};
use loopwright_core::model::Update;
use loopwright_core::session::EventReader;
use loopwright_core::tool::ToolUpdate;
use loopwright_core::{AgentEvent, Environment, SystemEnvironment};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::effects::{Editor, EffectRunner, Msg};
use self::keys::Keys;
use self::paint::Theme;
use self::screen::{Screen, StderrCapture};
use self::signals::{Signal, Signals};
use self::state::{Choice, Effect, Outcome, Run, State, Tone};
use self::view::View;
use crate::args::ChatArgs;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::output;
use crate::wording::no_colour;

/// Minimum time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_micros(16_667);
/// Interval between checks of animations and deadlines.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of events that are handled before keys are read again.
const MAX_EVENTS_PER_WAKEUP: usize = 512;
/// Maximum amount of streamed text that is handled per frame. Laying it out takes a few
/// milliseconds, during which no key is read.
const MAX_FRAME_TEXT_BYTES: usize = 16 * 1024;
/// Time limit for closing the session when the user quits.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for closing the session when a signal or an error ends the process.
const FORCED_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// Returns whether standard input and output are a terminal that can show the interface.
pub(crate) fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !dumb && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Runs the interface until the user quits. Returns the exit code, or an error if the terminal
/// cannot be used.
pub(crate) async fn tui(args: ChatArgs, config: Arc<Config>) -> Result<u8, StartError> {
    let failed = |why: io::Error| {
        StartError(format!("The terminal cannot be used: {why}. `--plain` needs none."))
    };
    let (stderr, stderr_lines) = StderrCapture::new().map_err(failed)?;
    let screen = Screen::acquire(stderr).map_err(failed)?;
    let mut ui = Ui::new(screen);
    let own = config.program.slash_commands.iter();
    ui.state.own_commands = own.map(|own| Choice::new(&*own.name, &*own.help)).collect();
    ui.draw().map_err(failed)?;
    let signals = Signals::listen().map_err(failed)?;
    let (runner, msgs) = EffectRunner::start(args, config);
    let code = ui.event_loop(&runner, msgs, stderr_lines, signals).await;
    ui.release();
    let name = match &code {
        Ok(0) => {
            if ui.state.has_user_message && ui.state.run == Run::Idle && !ui.state.is_opening {
                runner.distil().await;
            }
            timeout(SHUTDOWN_TIMEOUT, runner.shutdown()).await.ok().flatten()
        }
        _ if !ui.state.has_user_message => {
            timeout(FORCED_SHUTDOWN_TIMEOUT, runner.shutdown()).await.ok().flatten()
        }
        // A run in progress is interrupted; the session can be resumed.
        _ => ui.resumable_session(),
    };
    if let Some(name) = name {
        print_resume_command(&name);
    }
    code.map_err(failed)
}

fn print_resume_command(session: &str) {
    output::info(&format!(
        "`{} --session {}` resumes this conversation.",
        started_as(),
        output::quoted(session)
    ));
}

struct Ui {
    state: State,
    view: View,
    screen: Screen,
    /// The keyboard; `None` while an editor owns the terminal.
    keys: Option<Keys>,
    editor: Option<Editor>,
    /// `true` if the state has changed since the last frame.
    needs_draw: bool,
    last_draw: Instant,
    /// The amount of text received since the last frame, in bytes.
    undrawn_bytes: usize,
    exit_code: Option<u8>,
}

impl Ui {
    fn new(screen: Screen) -> Self {
        let mut state = State::new(SystemEnvironment.now());
        if let Ok(root) = std::env::current_dir() {
            state.status.root = root;
        }
        let (columns, lines) = screen.size();
        state.resize(columns, lines);
        let theme = if no_colour() { Theme::plain() } else { Theme::ansi() };
        let now = Instant::now();
        Ui {
            state,
            view: View::new(theme),
            screen,
            keys: Some(Keys::new()),
            editor: None,
            needs_draw: true,
            last_draw: now,
            undrawn_bytes: 0,
            exit_code: None,
        }
    }

    /// Restores the terminal, terminating an editor that owns it.
    fn release(&mut self) {
        match self.editor.take() {
            Some(editor) => {
                drop(editor);
                self.screen.restore();
            }
            None => self.screen.release(),
        }
    }

    /// Takes over the terminal again after another program may have used it.
    fn reacquire(&mut self) -> io::Result<()> {
        self.screen.reacquire()?;
        self.keys.get_or_insert_with(Keys::new);
        let (columns, lines) = self.screen.size();
        self.state.resize(columns, lines);
        self.changed();
        Ok(())
    }

    /// Returns the session's name if the session outlives the process.
    fn resumable_session(&self) -> Option<Arc<str>> {
        self.state.status.session.clone().filter(|_| self.state.status.is_persistent)
    }

    fn draw(&mut self) -> io::Result<()> {
        let Ui { state, view, screen, .. } = self;
        screen.draw(|frame| view.draw(state, frame))?;
        self.needs_draw = false;
        self.last_draw = Instant::now();
        self.undrawn_bytes = 0;
        Ok(())
    }

    async fn event_loop(
        &mut self,
        runner: &EffectRunner,
        mut msgs: mpsc::UnboundedReceiver<Msg>,
        mut stderr_lines: mpsc::Receiver<String>,
        mut signals: Signals,
    ) -> io::Result<u8> {
        let mut events: Option<EventReader> = None;
        let mut tick = interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        paint::warm_up();
        loop {
            if let Some(code) = self.exit_code {
                return Ok(code);
            }
            let frame = self.last_draw + FRAME_INTERVAL;
            let effects = tokio::select! { biased;
                signal = signals.next() => self.signal(signal)?,
                key = next_key(&mut self.keys) => self.terminal(key)?,
                () = tokio::time::sleep_until(frame), if self.needs_draw && self.keys.is_some() => {
                    self.draw()?;
                    Vec::new()
                }
                outcome = editor_outcome(&mut self.editor) => {
                    self.editor = None;
                    self.reacquire()?;
                    self.state.outcome(outcome)
                }
                Some(msg) = msgs.recv() => {
                    self.changed();
                    match msg {
                        Msg::Outcome(outcome) => self.state.outcome(outcome),
                        Msg::Opened(opened, stream) => {
                            events = Some(stream);
                            self.state.outcome(Outcome::Opened(opened))
                        }
                    }
                }
                Some(line) = stderr_lines.recv() => {
                    self.changed();
                    let outcome = match line.strip_prefix(&output::error_prefix()) {
                        Some(why) => Outcome::Notice(Tone::Error, why.to_owned()),
                        None => Outcome::Notice(Tone::Loud, line),
                    };
                    self.state.outcome(outcome)
                }
                _ = tick.tick(), if self.state.needs_ticks() => {
                    self.needs_draw |= self.state.tick(SystemEnvironment.now());
                    Vec::new()
                }
                event = next_event(&mut events), if self.takes_events() => {
                    self.events(event, &mut events, runner)
                }
            };
            for effect in effects {
                self.perform(effect, runner, &mut signals).await?;
            }
        }
    }

    /// Returns whether events may be handled before the next frame. Without a keyboard no frame is
    /// drawn.
    fn takes_events(&self) -> bool {
        self.undrawn_bytes < MAX_FRAME_TEXT_BYTES || self.keys.is_none()
    }

    /// Records that the state has changed, and when.
    fn changed(&mut self) {
        self.needs_draw = true;
        self.state.tick(SystemEnvironment.now());
    }

    /// Handles an event and the events that are already queued behind it.
    fn events(
        &mut self,
        first: Option<Arc<Envelope>>,
        events: &mut Option<EventReader>,
        runner: &EffectRunner,
    ) -> Vec<Effect> {
        self.changed();
        let Some(first) = first else {
            let end = events.take().and_then(|events| events.end());
            if self.state.is_opening {
                return Vec::new(); // another session is being opened
            }
            if end == Some(StreamEnd::Moved) {
                runner.reopen();
                return Vec::new();
            }
            let why = "The session has ended: `/sessions` reopens it.".to_owned();
            return self.state.outcome(Outcome::NotOpened { why, closed: true });
        };
        let mut effects = self.state.event(&first);
        self.undrawn_bytes += text_bytes(&first.event);
        for _ in 1..MAX_EVENTS_PER_WAKEUP {
            if self.undrawn_bytes >= MAX_FRAME_TEXT_BYTES {
                break;
            }
            let next = events.as_mut().and_then(|events| events.try_next().now_or_never());
            let Some(next) = next.flatten() else { break };
            effects.extend(self.state.event(&next));
            self.undrawn_bytes += text_bytes(&next.event);
        }
        effects
    }

    fn terminal(&mut self, event: Option<io::Result<Event>>) -> io::Result<Vec<Effect>> {
        self.changed();
        Ok(match event {
            Some(Ok(Event::Key(key))) => self.state.key(key),
            Some(Ok(Event::Paste(text))) => self.state.paste(&text),
            Some(Ok(Event::Resize(columns, lines))) => {
                self.state.resize(columns, lines);
                Vec::new()
            }
            Some(Ok(_)) => Vec::new(),
            Some(Err(why)) => return Err(why),
            None => {
                self.exit_code = Some(0); // the terminal was closed
                Vec::new()
            }
        })
    }

    fn signal(&mut self, signal: Signal) -> io::Result<Vec<Effect>> {
        match signal {
            Signal::Terminate(code) => self.exit_code = Some(code),
            Signal::Interrupt if self.keys.is_some() => {
                self.changed();
                return Ok(self.state.interrupt());
            }
            Signal::Interrupt => {} // the editor receives it too
            Signal::Continue if self.keys.is_some() => {
                self.reacquire()?;
            }
            Signal::Continue => {}
        }
        Ok(Vec::new())
    }

    async fn perform(
        &mut self,
        effect: Effect,
        runner: &EffectRunner,
        signals: &mut Signals,
    ) -> io::Result<()> {
        match effect {
            Effect::Scroll(how) => self.view.scroll(&self.state, how),
            Effect::Quit => self.exit_code = Some(0),
            Effect::Redraw => {
                self.screen.clear()?;
                self.changed();
            }
            Effect::Suspend => {
                self.keys = None;
                self.screen.release();
                signals.suspend().await;
                self.reacquire()?;
            }
            Effect::Edit { call, json } => match effects::editor() {
                None => drop(self.state.outcome(Outcome::NoEditor { call, json })),
                Some(editor) => {
                    self.keys = None; // it would compete with the editor for input
                    self.screen.release();
                    match Editor::start(&editor, call.clone(), &json) {
                        Ok(editor) => self.editor = Some(editor),
                        Err(why) => {
                            self.reacquire()?;
                            self.state.outcome(Outcome::Refused { call, why });
                        }
                    }
                }
            },
            other => runner.perform(other),
        }
        Ok(())
    }
}

impl Drop for Ui {
    /// Prints how to resume after a panic, whose message has been printed by now.
    fn drop(&mut self) {
        self.release();
        if let (true, Some(name)) = (std::thread::panicking(), self.resumable_session()) {
            print_resume_command(&name);
        }
    }
}

/// Returns the size of an event's text, in bytes.
fn text_bytes(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::MessageUpdate { update, .. } | AgentEvent::DetachedUpdate { update, .. } => {
            match update {
                Update::Text { delta, .. }
                | Update::Thinking { delta, .. }
                | Update::ToolCall { delta, .. } => delta.len(),
                _ => 0,
            }
        }
        AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(text), .. } => text.len(),
        _ => 0,
    }
}

async fn next_key(keys: &mut Option<Keys>) -> Option<io::Result<Event>> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

async fn editor_outcome(editor: &mut Option<Editor>) -> Outcome {
    match editor {
        Some(editor) => editor.ended().await,
        None => std::future::pending().await,
    }
}

async fn next_event(events: &mut Option<EventReader>) -> Option<Arc<Envelope>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
