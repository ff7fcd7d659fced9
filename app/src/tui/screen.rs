//! The terminal: acquired, drawn on one frame at a time, and released in every case.

mod stderr;

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

pub(crate) use self::stderr::StderrCapture;

/// The terminal while the app owns it. Dropping it releases the terminal.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<FrameBuffer>>,
    out: FrameBuffer,
    ownership: Ownership,
}

/// The ownership of the terminal, shared with the panic hook.
#[derive(Clone)]
struct Ownership {
    held: Arc<AtomicBool>,
    stderr: Arc<StderrCapture>,
    /// The terminal's modes when the app started.
    #[cfg(unix)]
    before: Arc<Option<rustix::termios::Termios>>,
}

impl Screen {
    /// Acquires the terminal. From then on a panic of this thread releases it before the message is
    /// printed.
    pub(crate) fn acquire(stderr: StderrCapture) -> io::Result<Self> {
        let ownership = Ownership::new(stderr);
        ownership.acquire(&mut io::stdout())?;
        let hook_ownership = ownership.clone();
        let this = std::thread::current().id();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // A panic in a tool becomes the tool's result; only a panic of this thread ends the
            // process.
            if std::thread::current().id() == this {
                hook_ownership.release();
            }
            before(panic);
        }));
        let out = FrameBuffer::default();
        let terminal = match Terminal::new(CrosstermBackend::new(out.clone())) {
            Ok(terminal) => terminal,
            Err(why) => {
                ownership.release();
                return Err(why);
            }
        };
        Ok(Screen { terminal, out, ownership })
    }

    /// Releases the terminal until it is reacquired.
    pub(crate) fn release(&mut self) {
        self.ownership.release();
    }

    /// Restores the state from before the app started, after another program used the terminal.
    pub(crate) fn restore(&mut self) {
        self.ownership.held.store(true, Ordering::SeqCst);
        self.ownership.release();
    }

    /// Acquires the terminal again, whatever state another program left it in. The next frame
    /// redraws everything.
    pub(crate) fn reacquire(&mut self) -> io::Result<()> {
        self.ownership.held.store(false, Ordering::SeqCst);
        self.ownership.restore_modes();
        self.ownership.acquire(&mut io::stdout())?;
        self.clear()
    }

    /// Clears the terminal. The next frame redraws everything.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` queries the cursor's position, and the keyboard's reader would consume
        // the reply.
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(self.out.clone()))?;
        self.out.0.take();
        Ok(())
    }

    /// Returns the size in columns and lines.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |size| (size.width, size.height))
    }

    /// Draws a frame, and writes the changes in one write.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw)?;
        self.out.write_frame()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.ownership.release();
    }
}

impl Ownership {
    fn new(stderr: StderrCapture) -> Self {
        Ownership {
            held: Arc::default(),
            stderr: Arc::new(stderr),
            #[cfg(unix)]
            before: Arc::new(rustix::termios::tcgetattr(io::stdin()).ok()),
        }
    }

    /// Acquires the terminal, or leaves it unchanged.
    fn acquire(&self, out: &mut impl Write) -> io::Result<()> {
        enable_raw_mode()?;
        self.held.store(true, Ordering::SeqCst);
        let entered = self.enter(out);
        if entered.is_err() {
            self.release();
        }
        entered
    }

    fn enter(&self, out: &mut impl Write) -> io::Result<()> {
        execute!(out, EnterAlternateScreen, EnableBracketedPaste)?;
        if has_keyboard_enhancement() {
            execute!(
                out,
                PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES)
            )?;
        }
        // Otherwise the mouse wheel arrives as arrow keys, which have another meaning here.
        write!(out, "\x1b[?1007l")?;
        out.flush()?;
        self.stderr.catch();
        Ok(())
    }

    /// Releases the terminal if it is held. Write errors are ignored: a terminal that cannot be
    /// written to shows nothing.
    fn release(&self) {
        if !self.held.swap(false, Ordering::SeqCst) {
            return;
        }
        let mut out = io::stdout();
        if has_keyboard_enhancement() {
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
        self.restore_modes();
        self.stderr.release();
    }

    /// Restores the terminal's modes from when the app started.
    fn restore_modes(&self) {
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

/// Returns whether the terminal may be asked to disambiguate keys. Most terminals ignore the
/// request if they cannot; the Linux console misinterprets it.
fn has_keyboard_enhancement() -> bool {
    cfg!(unix) && std::env::var_os("TERM").is_none_or(|term| term != "linux")
}

/// The bytes of a frame, collected because the backend flushes several times while it draws one.
#[derive(Clone, Default)]
struct FrameBuffer(Rc<RefCell<Vec<u8>>>);

impl FrameBuffer {
    /// Writes the frame as one synchronised update.
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

impl Write for FrameBuffer {
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

    /// Not a test: the program that a test below runs in a new terminal.
    #[test]
    #[ignore = "needs a terminal"]
    fn panics_while_drawing() {
        let (stderr, _lines) = StderrCapture::new().unwrap();
        let mut screen = Screen::acquire(stderr).unwrap();
        eprintln!("a warning");
        screen.draw(|frame| frame.render_widget("drawn", frame.area())).unwrap();
        panic!("the view has failed");
    }

    /// A writer that accepts no bytes, like a terminal that was closed.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    /// Not a test either.
    #[test]
    #[ignore = "needs a terminal"]
    fn cannot_be_acquired() {
        let (stderr, _lines) = StderrCapture::new().unwrap();
        assert!(Ownership::new(stderr).acquire(&mut Gone).is_err());
        let modes = rustix::termios::tcgetattr(io::stdin()).unwrap().local_modes;
        println!("cooked: {}", modes.contains(rustix::termios::LocalModes::ICANON));
    }

    #[test]
    fn a_terminal_that_cannot_be_acquired_is_left_unchanged() {
        let this = std::env::current_exe().unwrap();
        let run = format!(
            "{} --exact tui::screen::tests::cannot_be_acquired --ignored --nocapture",
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

    /// C135: a panic releases the terminal before its message is printed. Output on standard error
    /// is meanwhile not written across the screen.
    #[test]
    fn a_panic_releases_the_terminal_first() {
        let this = std::env::current_exe().unwrap();
        let run = format!(
            "stty cols 80 rows 24; {} --exact tui::screen::tests::panics_while_drawing --ignored \
             --nocapture",
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
        assert!(!text.contains("a warning"), "{text:?}");
        assert_eq!(text.matches("\x1b[?1049l").count(), 1, "released once: {text:?}");
    }
}
