//! The terminal: taken over, drawn on in one piece, and given back whatever happens.

mod complaints;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

pub(crate) use self::complaints::Complaints;

/// The terminal while it is ours. Dropping it gives it back.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Out>>,
    out: Out,
    taken: Taken,
}

/// Whether the terminal is ours; shared with the panic hook.
#[derive(Clone)]
struct Taken {
    is: Arc<AtomicBool>,
    complaints: Arc<Complaints>,
    /// How the terminal was when the app began.
    #[cfg(unix)]
    before: Arc<Option<rustix::termios::Termios>>,
}

impl Screen {
    /// Takes the terminal over. From here on a panic of this thread gives it back before it is told
    /// of.
    pub(crate) fn take(complaints: Complaints) -> io::Result<Self> {
        let taken = Taken::new(complaints);
        taken.take(&mut io::stdout())?;
        let (ours, this) = (taken.clone(), std::thread::current().id());
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // That of a tool is told of by its result; only this thread's ends the process.
            if std::thread::current().id() == this {
                ours.give_back();
            }
            before(panic);
        }));
        let out = Out::default();
        let terminal = match Terminal::new(CrosstermBackend::new(out.clone())) {
            Ok(terminal) => terminal,
            Err(why) => {
                taken.give_back();
                return Err(why);
            }
        };
        Ok(Screen { terminal, out, taken })
    }

    /// Gives the terminal back for now.
    pub(crate) fn give_back(&mut self) {
        self.taken.give_back();
    }

    /// Makes it as it was before the app began, after another program has ended that had it.
    pub(crate) fn restore(&mut self) {
        self.taken.is.store(true, Ordering::SeqCst);
        self.taken.give_back();
    }

    /// Takes it again, whoever had it, and draws everything anew the next time.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        self.taken.is.store(false, Ordering::SeqCst);
        self.taken.cook();
        self.taken.take(&mut io::stdout())?;
        self.clear()
    }

    /// Draws everything anew the next time.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask the terminal where the cursor is, and the keyboard's reader
        // take the answer.
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(self.out.clone()))?;
        self.out.0.take();
        Ok(())
    }

    /// Columns and lines.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |size| (size.width, size.height))
    }

    /// Draws a frame: what has changed of it goes out in one write.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw)?;
        self.out.write_frame()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.taken.give_back();
    }
}

impl Taken {
    fn new(complaints: Complaints) -> Self {
        Taken {
            is: Arc::default(),
            complaints: Arc::new(complaints),
            #[cfg(unix)]
            before: Arc::new(rustix::termios::tcgetattr(io::stdin()).ok()),
        }
    }

    /// Takes the terminal, or leaves it as it was.
    fn take(&self, out: &mut impl Write) -> io::Result<()> {
        enable_raw_mode()?;
        self.is.store(true, Ordering::SeqCst);
        let entered = self.enter(out);
        if entered.is_err() {
            self.give_back();
        }
        entered
    }

    fn enter(&self, out: &mut impl Write) -> io::Result<()> {
        execute!(out, EnterAlternateScreen, EnableBracketedPaste)?;
        if enhances() {
            execute!(
                out,
                PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES)
            )?;
        }
        // A wheel would otherwise come as arrow keys, which mean something else here.
        write!(out, "\x1b[?1007l")?;
        out.flush()?;
        self.complaints.catch();
        Ok(())
    }

    /// Gives the terminal back, if it is ours. If it cannot be written to, there is nobody to see
    /// it.
    fn give_back(&self) {
        if !self.is.swap(false, Ordering::SeqCst) {
            return;
        }
        let mut out = io::stdout();
        if enhances() {
            let _ = execute!(out, PopKeyboardEnhancementFlags);
        }
        let _ = write!(out, "\x1b[?1007h");
        let _ = execute!(
            out,
            EndSynchronizedUpdate,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        );
        self.cook();
        self.complaints.release();
    }

    /// Gives the terminal the settings that it had when the app began.
    fn cook(&self) {
        let _ = disable_raw_mode();
        #[cfg(unix)]
        if let Some(before) = &*self.before {
            let _ = rustix::termios::tcsetattr(
                io::stdin(),
                rustix::termios::OptionalActions::Now,
                before,
            );
        }
    }
}

/// Whether the terminal may be asked to tell more keys apart. Most ignore it where they cannot; the
/// console of Linux takes it for something else.
fn enhances() -> bool {
    cfg!(unix) && std::env::var_os("TERM").is_none_or(|term| term != "linux")
}

/// What a frame is made of, until it is whole: the terminal flushes several times while it draws
/// one.
#[derive(Clone, Default)]
struct Out(Rc<RefCell<Vec<u8>>>);

impl Out {
    /// Writes the frame in one piece, which terminals that can show as one.
    fn write_frame(&self) -> io::Result<()> {
        let bytes = self.0.take();
        let mut frame = Vec::with_capacity(bytes.len() + 16);
        queue!(frame, BeginSynchronizedUpdate)?;
        frame.extend(bytes);
        queue!(frame, EndSynchronizedUpdate)?;
        let mut out = io::stdout().lock();
        out.write_all(&frame)?;
        out.flush()
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    /// Not a test by itself: what the next one runs on a terminal of its own.
    #[test]
    #[ignore = "needs a terminal"]
    fn panics() {
        let (complaints, _lines) = Complaints::new().unwrap();
        let mut screen = Screen::take(complaints).unwrap();
        eprintln!("complained of");
        screen.draw(|frame| frame.render_widget("drawn", frame.area())).unwrap();
        panic!("the view has failed");
    }

    /// Takes nothing, as a terminal that is gone.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    /// Not a test by itself either.
    #[test]
    #[ignore = "needs a terminal"]
    fn cannot_be_taken() {
        let (complaints, _lines) = Complaints::new().unwrap();
        assert!(Taken::new(complaints).take(&mut Gone).is_err());
        let modes = rustix::termios::tcgetattr(io::stdin()).unwrap().local_modes;
        println!("cooked: {}", modes.contains(rustix::termios::LocalModes::ICANON));
    }

    #[test]
    fn a_terminal_that_cannot_be_taken_is_left_as_it_was() {
        let this = std::env::current_exe().unwrap();
        let run = format!(
            "{} --exact tui::screen::tests::cannot_be_taken --ignored --nocapture",
            this.display()
        );
        let done = Command::new("script")
            .args(["-qec", &run, "/dev/null"])
            .env("TERM", "xterm")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(text.contains("cooked: true"), "{text:?}");
    }

    /// C135: a panic gives the terminal back before it is told of. What others write to standard
    /// error meanwhile is not written across the screen.
    #[test]
    fn a_panic_gives_the_terminal_back_first() {
        let this = std::env::current_exe().unwrap();
        let run = format!(
            "stty cols 80 rows 24; {} --exact tui::screen::tests::panics --ignored --nocapture",
            this.display()
        );
        let mut script = Command::new("script");
        let done = script.args(["-qec", &run, "/dev/null"]).env("TERM", "xterm").output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        let at =
            |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is missing: {text:?}"));
        let order = [
            "\x1b[?1049h",
            "drawn",
            "\x1b[?2004l",
            "\x1b[?1049l",
            "\x1b[?25h",
            "the view has failed",
        ]
        .map(at);
        assert!(order.is_sorted(), "{text:?}");
        assert!(!text.contains("complained of"), "{text:?}");
        assert_eq!(text.matches("\x1b[?1049l").count(), 1, "once is enough: {text:?}");
    }
}
