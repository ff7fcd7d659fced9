//! The terminal interface: one loop that hears keys, the agent's events and what came of effects,
//! and draws at most sixty times a second. What is shown is a fold ([`state`]); how, a function of
//! it ([`view`]).

mod effects;
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

use crossterm::event::{Event, EventStream as Keys};
use futures::StreamExt;
use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::event::{Envelope, Update};
use loopwright_core::tool::ToolUpdate;
use loopwright_core::{AgentEvent, EventStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::effects::{Editor, Hands, News};
use self::paint::Theme;
use self::screen::{Complaints, Screen};
use self::signals::{Heard, Signals};
use self::state::{Effect, Run, State, Told, Tone};
use self::view::View;
use crate::agent::StartError;
use crate::args::ChatArgs;
use crate::print;
use crate::telling::no_colour;

/// The least time between two frames.
const FRAME: Duration = Duration::from_micros(16_667);
/// How often what moves by itself is looked at.
const TICK: Duration = Duration::from_millis(100);
/// The most events that are taken in before keys are looked at again.
const DRAIN: usize = 512;
/// The most text that is taken in for one frame, in bytes: to lay it out takes a few milliseconds,
/// in which no key is heard.
const TEXT: usize = 16 * 1024;
/// How long leaving may take, and how long where somebody else wants it.
const LEAVING: Duration = Duration::from_secs(3);
const HURRY: Duration = Duration::from_millis(300);

/// Whether there is a screen to show it on.
pub(crate) fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !dumb && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Talks until the user leaves, and gives the exit code.
pub(crate) async fn tui(args: ChatArgs) -> Result<u8, StartError> {
    let failed = |why: io::Error| {
        StartError(format!("The terminal cannot be used: {why}. `--plain` needs none."))
    };
    let (complaints, complained) = Complaints::new().map_err(failed)?;
    let screen = Screen::take(complaints).map_err(failed)?;
    let mut ui = Ui::new(screen);
    ui.draw().map_err(failed)?;
    let signals = Signals::listen().map_err(failed)?;
    let (hands, news) = Hands::start(args);
    let code = ui.live(&hands, news, complained, signals).await;
    ui.give_back();
    let name = match &code {
        Ok(0) => timeout(LEAVING, hands.leave()).await.ok().flatten(),
        _ if !ui.state.spoke => timeout(HURRY, hands.leave()).await.ok().flatten(),
        // What goes on is interrupted, and can be gone on with.
        _ => ui.kept(),
    };
    if let Some(name) = name {
        tell_how_to_go_on(&name);
    }
    code.map_err(failed)
}

fn tell_how_to_go_on(session: &str) {
    print::tell(&format!(
        "`loopwright --session {}` goes on with this conversation.",
        print::quoted(session)
    ));
}

struct Ui {
    state: State,
    view: View,
    screen: Screen,
    /// The keyboard; nothing while an editor has it.
    keys: Option<Keys>,
    editor: Option<Editor>,
    /// What is shown is no longer what is.
    stale: bool,
    drawn: Instant,
    /// How much text was taken in since, in bytes.
    taken: usize,
    leave: Option<u8>,
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
            stale: true,
            drawn: now,
            taken: 0,
            leave: None,
        }
    }

    /// Gives the terminal back as it was; an editor that has it is ended.
    fn give_back(&mut self) {
        match self.editor.take() {
            Some(editor) => {
                drop(editor);
                self.screen.restore();
            }
            None => self.screen.give_back(),
        }
    }

    /// Takes the terminal again, after somebody else may have had it.
    fn take_again(&mut self) -> io::Result<()> {
        self.screen.take_again()?;
        self.keys.get_or_insert_with(Keys::new);
        let (columns, lines) = self.screen.size();
        self.state.resize(columns, lines);
        self.changed();
        Ok(())
    }

    /// The session's name, if it is there when the process has ended.
    fn kept(&self) -> Option<Arc<str>> {
        self.state.status.session.clone().filter(|_| self.state.status.kept)
    }

    fn draw(&mut self) -> io::Result<()> {
        let Ui { state, view, screen, .. } = self;
        screen.draw(|frame| view.draw(state, frame))?;
        (self.stale, self.drawn, self.taken) = (false, Instant::now(), 0);
        Ok(())
    }

    async fn live(
        &mut self,
        hands: &Hands,
        mut news: mpsc::UnboundedReceiver<News>,
        mut complained: mpsc::Receiver<String>,
        mut signals: Signals,
    ) -> io::Result<u8> {
        let mut events: Option<EventStream> = None;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        paint::warm_up();
        loop {
            if let Some(code) = self.leave {
                return Ok(code);
            }
            let frame = self.drawn + FRAME;
            let effects = tokio::select! { biased;
                heard = signals.next() => self.signal(heard)?,
                key = next_key(&mut self.keys) => self.terminal(key)?,
                () = tokio::time::sleep_until(frame), if self.stale && self.keys.is_some() => {
                    self.draw()?;
                    Vec::new()
                }
                told = edited(&mut self.editor) => {
                    self.editor = None;
                    self.take_again()?;
                    self.state.told(told)
                }
                Some(what) = news.recv() => {
                    self.changed();
                    match what {
                        News::Told(told) => self.state.told(told),
                        News::Opened(opened, stream) => {
                            events = Some(stream);
                            self.state.told(Told::Opened(opened))
                        }
                    }
                }
                Some(line) = complained.recv() => {
                    self.changed();
                    let told = match line.strip_prefix("loopwright: ") {
                        Some(why) => Told::Notice(Tone::Error, why.to_owned()),
                        None => Told::Notice(Tone::Loud, line),
                    };
                    self.state.told(told)
                }
                _ = tick.tick(), if self.state.moves() => {
                    self.stale |= self.state.tick(SystemEnvironment.now());
                    Vec::new()
                }
                event = next_event(&mut events), if self.taken < TEXT || self.keys.is_none() => {
                    self.events(event, &mut events, hands)
                }
            };
            for effect in effects {
                self.perform(effect, hands, &mut signals).await?;
            }
        }
    }

    fn changed(&mut self) {
        self.stale = true;
        self.state.tick(SystemEnvironment.now());
    }

    /// Takes in an event and those that lie there already.
    fn events(
        &mut self,
        first: Option<Arc<Envelope>>,
        events: &mut Option<EventStream>,
        hands: &Hands,
    ) -> Vec<Effect> {
        self.changed();
        let Some(first) = first else {
            if events.take().is_some_and(|events| events.lagged()) {
                hands.join();
                return Vec::new(); // it goes on; we were too slow
            }
            if self.state.run == Run::Opening {
                return Vec::new(); // it was let go of for another
            }
            let why = "The session has ended: /sessions opens it again.".to_owned();
            return self.state.told(Told::NotOpened { why, closed: true });
        };
        let mut effects = self.state.event(&first);
        self.taken += text_of(&first.event);
        for _ in 1..DRAIN {
            if self.taken >= TEXT {
                break;
            }
            let Some(next) = events.as_mut().and_then(EventStream::try_next) else {
                break;
            };
            effects.extend(self.state.event(&next));
            self.taken += text_of(&next.event);
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
                self.leave = Some(0); // the terminal is gone
                Vec::new()
            }
        })
    }

    fn signal(&mut self, heard: Heard) -> io::Result<Vec<Effect>> {
        match heard {
            Heard::End(code) => self.leave = Some(code),
            Heard::Interrupt if self.keys.is_some() => {
                self.changed();
                return Ok(self.state.interrupt());
            }
            Heard::Interrupt => {} // it was meant for the editor
            Heard::GoOn if self.keys.is_some() => {
                self.take_again()?;
            }
            Heard::GoOn => {}
        }
        Ok(Vec::new())
    }

    async fn perform(
        &mut self,
        effect: Effect,
        hands: &Hands,
        signals: &mut Signals,
    ) -> io::Result<()> {
        match effect {
            Effect::Scroll(how) => self.view.scroll(&self.state, how),
            Effect::Quit => self.leave = Some(0),
            Effect::Redraw => {
                self.screen.clear()?;
                self.changed();
            }
            Effect::Suspend => {
                self.keys = None;
                self.screen.give_back();
                signals.suspend().await;
                self.take_again()?;
            }
            Effect::Edit { call, json } => match effects::editor() {
                None => drop(self.state.told(Told::NoEditor { call, json })),
                Some(editor) => {
                    self.keys = None; // it would read along
                    self.screen.give_back();
                    match Editor::start(&editor, call.clone(), &json) {
                        Ok(editor) => self.editor = Some(editor),
                        Err(why) => {
                            self.take_again()?;
                            self.state.told(Told::Refused { call, why });
                        }
                    }
                }
            },
            other => hands.perform(other),
        }
        Ok(())
    }
}

impl Drop for Ui {
    /// Where a panic ends it, that was told of by now: it remains to say how to go on.
    fn drop(&mut self) {
        self.give_back();
        if let (true, Some(name)) = (std::thread::panicking(), self.kept()) {
            tell_how_to_go_on(&name);
        }
    }
}

/// How much text an event brings, in bytes.
fn text_of(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::MessageUpdate {
            update:
                Update::Text { delta, .. }
                | Update::Thinking { delta, .. }
                | Update::ToolCall { delta, .. },
            ..
        } => delta.len(),
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

async fn edited(editor: &mut Option<Editor>) -> Told {
    match editor {
        Some(editor) => editor.ended().await,
        None => std::future::pending().await,
    }
}

async fn next_event(events: &mut Option<EventStream>) -> Option<Arc<Envelope>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
