//! [`Interpreter`], the program that runs scripts, and its processes.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::protocol::{
    ALLOCATOR_EXIT_CODE, Ended, MAX_MESSAGE_BYTES, MEMORY_EXIT_CODE, Progress, Start,
    TIME_EXIT_CODE,
};

/// The program that runs scripts, with their limits: `loopwright-script`, or one that calls
/// [`serve`](crate::serve).
///
/// Each script has a process of its own, since a script can crash the interpreter: values that are
/// nested deep enough overflow its stack. The process gets no environment variables but `PATH`. It
/// opens no files and no connections, because the interpreter cannot.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_code::Interpreter;
///
/// let interpreter = Interpreter::program("loopwright-script")
///     .time(Duration::from_secs(2))
///     .memory(64 << 20);
/// # let _ = interpreter;
/// ```
#[derive(Debug, Clone)]
pub struct Interpreter {
    program: PathBuf,
    arguments: Vec<OsString>,
    time: Duration,
    memory_bytes: usize,
}

/// The error of a program that cannot run scripts. It ends the run.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InterpreterError {
    /// The program could not be started.
    #[error(
        "`{program}`, which runs scripts, cannot be started: {error}. \
         `cargo install loopwright-code` installs `loopwright-script`."
    )]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The program does not answer as [`serve`](crate::serve) does.
    #[error("`{program}` does not run scripts: {why}")]
    Answer {
        /// The program.
        program: String,
        /// The difference.
        why: String,
    },
}

impl Interpreter {
    /// Returns the interpreter of this program, by its path or by its name in `PATH`. A script may
    /// compute for 5 seconds and use 128 MiB.
    pub fn program(program: impl AsRef<Path>) -> Self {
        Interpreter {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            time: Duration::from_secs(5),
            memory_bytes: 128 << 20,
        }
    }

    /// Adds an argument of the program.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets how long a script may compute, in whole seconds, at least one. The time of its calls
    /// does not count.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets how many bytes of memory a script may use.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Starts a process, which waits for its script.
    pub(crate) fn start(&self) -> Result<Process, InterpreterError> {
        let program = self.program.display().to_string();
        let path = std::env::var_os("PATH").map(|path| ("PATH", path)); // where programs are
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl+C in a terminal is for the agent, which may handle it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| InterpreterError::Start {
            program: program.clone(),
            error: Arc::new(error),
        })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let pipes = pipes.map(|(input, output)| (input, BufReader::new(output)));
        Ok(Process { program, child, pipes })
    }

    /// Returns the first message to a process.
    pub(crate) fn script(&self, code: &str, functions: Vec<String>) -> Start {
        Start {
            code: code.to_owned(),
            functions,
            seconds: self.time.as_secs().max(1),
            memory_bytes: self.memory_bytes,
        }
    }
}

/// A process that runs a script. It is killed when dropped.
pub(crate) struct Process {
    program: String,
    child: Child,
    /// The pipes; `None` while another thread uses them, and after the end of the process.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Process {
    /// Sends a message, and returns the answer. If the future is dropped, so must be the process.
    pub(crate) async fn send(
        &mut self,
        message: &impl Serialize,
    ) -> Result<Progress, InterpreterError> {
        let mut message = serde_json::to_vec(message).map_err(|error| self.answer(&error))?;
        message.push(b'\n');
        let Some((mut input, mut output)) = self.pipes.take() else {
            return Err(self.answer(&"it has ended"));
        };
        // A thread, since the runtime of a test with a paused clock does not wait for a process.
        let exchange = spawn_blocking(move || {
            let mut line = Vec::new();
            let sent = input.write_all(&message).and_then(|()| input.flush());
            let read = sent
                .and_then(|()| (&mut output).take(MAX_MESSAGE_BYTES).read_until(b'\n', &mut line));
            (read.map(|_| line), input, output)
        });
        let (line, input, output) = exchange.await.map_err(|error| self.answer(&error))?;
        match line {
            Ok(line) if line.ends_with(b"\n") => {
                self.pipes = Some((input, output));
                match serde_json::from_slice(&line).map_err(|error| self.answer(&error))? {
                    Progress::Calls(calls) if calls.is_empty() => {
                        Err(self.answer(&"it waits for no call"))
                    }
                    progress => Ok(progress),
                }
            }
            Ok(line) if line.len() as u64 == MAX_MESSAGE_BYTES => {
                Ok(failed("MemoryError: the output or the arguments are too large"))
            }
            _ => {
                drop((input, output));
                self.ended()
            }
        }
    }

    /// Returns why the process has ended without an answer.
    fn ended(&mut self) -> Result<Progress, InterpreterError> {
        let status = self.child.wait().map_err(|error| self.answer(&error))?;
        match status.code() {
            Some(0) => Err(self.answer(&"it has ended without an answer")),
            Some(code) if code == i32::from(ALLOCATOR_EXIT_CODE) => {
                Err(self.answer(&"its global allocator is not `LimitedAllocator`"))
            }
            Some(code) if code == i32::from(TIME_EXIT_CODE) => {
                Ok(failed("TimeoutError: the script took too long"))
            }
            Some(MEMORY_EXIT_CODE) => Ok(failed("MemoryError: the script used too much memory")),
            _ => Ok(failed(
                "The script crashed the interpreter. It may nest values or expressions too deep.",
            )),
        }
    }

    fn answer(&self, why: &dyn std::fmt::Display) -> InterpreterError {
        InterpreterError::Answer { program: self.program.clone(), why: why.to_string() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(error: &str) -> Progress {
    Progress::Ended(Ended { error: Some(error.to_owned()), ..Ended::default() })
}
