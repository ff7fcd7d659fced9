//! The process that runs a script: [`serve`].

mod arguments;
mod watchdog;

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use monty::{MontyRun, ResolveFutures, RunProgress};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult,
    PrintWriter, ResourceLimits, ResourceTracker,
};
use serde::de::DeserializeOwned;

pub use monty_alloc::LimitedAllocator;

use crate::protocol::{
    ALLOCATOR_EXIT_CODE, CallResult, Ended, Exception, FunctionCall, MAX_PRINTED_BYTES, Progress,
    Start,
};
use arguments::arguments_of;
use watchdog::Watchdog;

/// The stack of the interpreter. Scripts that nest deeper end the process.
const STACK_BYTES: usize = 64 << 20;

/// Runs one script of an agent, which has started this process with
/// [`Interpreter`](crate::Interpreter), and returns the exit code.
///
/// The binary `loopwright-script` does nothing else. Another program can call it first in its
/// `main`, if [`LimitedAllocator`] is its global allocator, which counts the memory of the script:
///
/// ```no_run
/// #[global_allocator]
/// static ALLOCATOR: loopwright_code::LimitedAllocator = loopwright_code::LimitedAllocator;
///
/// fn main() -> std::process::ExitCode {
///     if std::env::args().nth(1).as_deref() == Some("script") {
///         return loopwright_code::serve();
///     }
///     // Interpreter::program(std::env::current_exe()?).arg("script")
///     std::process::ExitCode::SUCCESS
/// }
/// ```
pub fn serve() -> ExitCode {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    match thread.map(thread::JoinHandle::join) {
        Ok(Ok(Ok(code))) => code,
        _ => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<ExitCode> {
    let start: Start = read()?;
    if monty_alloc::set_limit(Some(start.memory_bytes), false).is_err() {
        return Ok(ExitCode::from(ALLOCATOR_EXIT_CODE));
    }
    let mut script = Script {
        functions: start.functions.into_iter().collect(),
        waiting: Vec::new(),
        printed: String::new(),
        watchdog: Watchdog::start(Duration::from_secs(start.seconds + 1))?,
    };
    let limits = ResourceLimits {
        max_duration: Some(Duration::from_secs(start.seconds)),
        max_memory: Some(start.memory_bytes),
        ..ResourceLimits::default()
    };
    let ended = match script.run(start.code, ResourceTracker::new(limits))? {
        Ok(value) => script.complete(value),
        Err(exception) => Ended { error: Some(exception.to_string()), ..Ended::default() },
    };
    write(&Progress::Ended(Ended { printed: script.printed, ..ended }))?;
    Ok(ExitCode::SUCCESS)
}

/// A running script.
struct Script {
    functions: BTreeSet<String>,
    /// The calls that the script has made since it last waited.
    waiting: Vec<FunctionCall>,
    printed: String,
    watchdog: Watchdog,
}

impl Script {
    /// Runs the script until it ends. The outer error is one of the pipes.
    fn run(
        &mut self,
        code: String,
        tracker: ResourceTracker,
    ) -> io::Result<Result<MontyObject, MontyException>> {
        let (names, values) = builtins();
        let compiled = MontyRun::new(code, "script.py", names, CompileOptions::default());
        let mut next = compiled.and_then(|run| run.start(values, tracker, self.print()));
        let mut results = Vec::new().into_iter();
        loop {
            next = match next {
                Ok(RunProgress::Complete(value)) => return Ok(Ok(value)),
                Err(exception) => return Ok(Err(exception)),
                Ok(RunProgress::FunctionCall(call))
                    if !self.functions.contains(&call.function_name) =>
                {
                    let name = call.function_name.clone();
                    call.resume(ExtFunctionResult::NotFound(name), self.print())
                }
                Ok(RunProgress::FunctionCall(call)) => {
                    match arguments_of(&call.function_name, &call.args, &call.kwargs) {
                        Ok(arguments) => {
                            let function = call.function_name.clone();
                            let number = call.call_id;
                            self.waiting.push(FunctionCall { number, function, arguments });
                            call.resume_pending(self.print())
                        }
                        Err(why) => call.resume(exception(ExcType::TypeError, why), self.print()),
                    }
                }
                Ok(RunProgress::NameLookup(lookup)) => {
                    let name = lookup.name.clone();
                    let is_function = self.functions.contains(&name);
                    let function = MontyObject::Function { name, docstring: None };
                    let found = is_function.then_some(function);
                    lookup.resume(NameLookupResult::from(found), self.print())
                }
                Ok(RunProgress::OsCall(call)) => {
                    let why = "Scripts have no files, no environment and no clock.".to_owned();
                    call.resume(exception(ExcType::PermissionError, why), self.print())
                }
                Ok(RunProgress::ResolveFutures(futures)) => {
                    if results.len() == 0 {
                        results = self.wait()?.into_iter();
                    }
                    // One result at a time: the interpreter wakes tasks in a random order, and the
                    // calls of a script must have the same numbers in each process.
                    self.resume(futures, results.next())
                }
            }
        }
    }

    /// Reports the new calls, and waits for results.
    fn wait(&mut self) -> io::Result<Vec<CallResult>> {
        self.watchdog.pause();
        write(&Progress::Calls(std::mem::take(&mut self.waiting)))?;
        let results = read()?;
        self.watchdog.resume();
        Ok(results)
    }

    /// Continues with the result of a call, if the script still waits for it.
    fn resume(
        &mut self,
        futures: ResolveFutures,
        result: Option<CallResult>,
    ) -> Result<RunProgress, MontyException> {
        let is_pending = |result: &CallResult| futures.pending_call_ids().contains(&result.number);
        let Some(result) = result.filter(is_pending) else {
            return Ok(RunProgress::ResolveFutures(futures));
        };
        let CallResult { number, text, exception: raised } = result;
        let result = match raised {
            None => ExtFunctionResult::Return(MontyObject::String(text)),
            Some(Exception::Denied) => exception(ExcType::PermissionError, text),
            Some(Exception::Failed) => exception(ExcType::RuntimeError, text),
        };
        futures.resume(vec![(number, result)], self.print())
    }

    /// Returns the end of a script that has run to its end.
    fn complete(&self, value: MontyObject) -> Ended {
        if !self.waiting.is_empty() {
            let names: Vec<&str> = self.waiting.iter().map(|call| &*call.function).collect();
            let names = names.join(", ");
            let error = format!("These calls were not made, since nothing awaits them: {names}.");
            return Ended { error: Some(error), ..Ended::default() };
        }
        let value = match value {
            MontyObject::None => None,
            MontyObject::String(text) => Some(text),
            value => Some(value.py_repr()),
        };
        Ended { value, ..Ended::default() }
    }

    fn print(&mut self) -> PrintWriter<'_> {
        PrintWriter::CollectString(&mut self.printed, Some(MAX_PRINTED_BYTES))
    }
}

/// Returns built-in functions, for the script to have them as globals. In a comprehension at the
/// top of a script, the interpreter takes a variable such as `id` for the function, unless the name
/// is a global, too.
fn builtins() -> (Vec<String>, Vec<MontyObject>) {
    let names = [
        "abs",
        "all",
        "any",
        "bin",
        "chr",
        "divmod",
        "enumerate",
        "filter",
        "getattr",
        "hash",
        "hex",
        "id",
        "input",
        "iter",
        "len",
        "map",
        "max",
        "min",
        "next",
        "oct",
        "ord",
        "pow",
        "repr",
        "reversed",
        "round",
        "sorted",
        "sum",
        "type",
        "vars",
        "zip",
    ];
    let value = |name: &str| MontyObject::builtin_function_from_name(name);
    names.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).unzip()
}

fn exception(kind: ExcType, message: String) -> ExtFunctionResult {
    ExtFunctionResult::Error(MontyException::new(kind, Some(message)))
}

fn read<T: DeserializeOwned>() -> io::Result<T> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn write(progress: &Progress) -> io::Result<()> {
    let mut line = serde_json::to_vec(progress)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}
