//! Support for the code that `#[tool]`, `#[tools]` and `#[main]` generate. Not a public API.
//!
//! A tool's return type is recognised as a type, not by its name, so that aliases such as
//! `anyhow::Result` work. Of the traits of [`Of`], method resolution takes the first implemented
//! one, and traits for references to references come first.

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::process::{ExitCode, Termination};

use loopwright_core::serde_json::{self, Value};
use loopwright_core::{Extensions, ToolError, ToolOutput};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use loopwright_core::schemars::{self, JsonSchema};
pub use serde::{self, Deserialize};

/// Runs a future on a new multi-threaded runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(future),
        Err(why) => {
            eprintln!("The async runtime cannot be started: {why}.");
            std::process::exit(1)
        }
    }
}

/// The end of a `main` with an error that has a text. The standard library prints errors as
/// `Debug`, for programmers.
pub trait TextEnd {
    /// Returns the conversion to an exit code.
    fn end(&self) -> PrintText {
        PrintText
    }
}

impl<T: Termination, E: Display> TextEnd for &Of<Result<T, E>> {}

/// A conversion that prints the text of an error.
pub struct PrintText;

impl PrintText {
    /// Returns the exit code.
    pub fn exit_code<T: Termination, E: Display>(
        self,
        main: impl Future<Output = Result<T, E>>,
    ) -> ExitCode {
        end_with(block_on(main), |error| format!("{error:#}"))
    }
}

/// The end of a `main` with an error that has causes.
pub trait ErrorEnd {
    /// Returns the conversion to an exit code.
    fn end(&self) -> PrintCauses {
        PrintCauses
    }
}

impl<T: Termination, E: Error> ErrorEnd for &&Of<Result<T, E>> {}

/// A conversion that prints the text of an error and of its causes.
pub struct PrintCauses;

impl PrintCauses {
    /// Returns the exit code.
    pub fn exit_code<T: Termination, E: Error>(
        self,
        main: impl Future<Output = Result<T, E>>,
    ) -> ExitCode {
        end_with(block_on(main), |error| text_with_causes(&error))
    }
}

/// The end of a `main` with a boxed error that has causes, such as `Box<dyn Error>`.
pub trait BoxedEnd {
    /// Returns the conversion to an exit code.
    fn end(&self) -> PrintBoxed {
        PrintBoxed
    }
}

impl<T: Termination, E: Error + ?Sized> BoxedEnd for &&&Of<Result<T, Box<E>>> {}

/// A conversion that prints the text of a boxed error and of its causes.
pub struct PrintBoxed;

impl PrintBoxed {
    /// Returns the exit code.
    pub fn exit_code<T: Termination, E: Error + ?Sized>(
        self,
        main: impl Future<Output = Result<T, Box<E>>>,
    ) -> ExitCode {
        end_with(block_on(main), |error| text_with_causes(&*error))
    }
}

/// The end of every other `main`.
pub trait AnyEnd {
    /// Returns the conversion to an exit code.
    fn end(&self) -> AsTermination {
        AsTermination
    }
}

impl<T: Termination> AnyEnd for Of<T> {}

/// A conversion by the standard library.
pub struct AsTermination;

impl AsTermination {
    /// Returns the exit code.
    pub fn exit_code<T: Termination>(self, main: impl Future<Output = T>) -> ExitCode {
        block_on(main).report()
    }
}

fn end_with<T: Termination, E>(end: Result<T, E>, text: impl FnOnce(E) -> String) -> ExitCode {
    match end {
        Ok(value) => value.report(),
        Err(error) => {
            let _ = writeln!(io::stderr(), "Error: {}", text(error)); // it may be closed
            ExitCode::FAILURE
        }
    }
}

/// Returns the text of an error, and the texts of its causes that it does not contain.
fn text_with_causes<E: Error + ?Sized>(error: &E) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let of_cause = error.to_string();
        if !text.contains(&of_cause) {
            text = format!("{text}: {of_cause}");
        }
        cause = error.source();
    }
    text
}

/// Returns a rule for approvals from a rule for the typed arguments. Arguments that cannot be read
/// need an approval.
pub fn typed_rule<A: DeserializeOwned>(
    rule: impl Fn(&A) -> bool + Send + Sync + 'static,
) -> impl Fn(&Value, &Extensions) -> bool + Send + Sync + 'static {
    move |arguments, _| A::deserialize(arguments).map_or(true, |arguments| rule(&arguments))
}

/// A stand-in for a type, for method resolution.
pub struct Of<T>(PhantomData<fn() -> T>);

impl<T> Of<T> {
    /// Returns the type of a value.
    pub fn new(_: &T) -> Self {
        Of(PhantomData)
    }

    /// Returns the type of the output of a future.
    pub fn output(_: &impl Future<Output = T>) -> Self {
        Of(PhantomData)
    }
}

/// The kind of `Result<T, ToolError>`.
pub trait ToolErrorKind {
    /// Returns the conversion of the value.
    fn kind(&self) -> AsItIs {
        AsItIs
    }
}

impl<T> ToolErrorKind for &&Of<Result<T, ToolError>> {}

/// A conversion that keeps the result.
pub struct AsItIs;

impl AsItIs {
    /// Returns the value, or the error.
    pub fn value<T>(self, returned: Result<T, ToolError>) -> Result<T, ToolError> {
        returned
    }
}

/// The kind of every other `Result`.
pub trait ErrorKind {
    /// Returns the conversion of the value.
    fn kind(&self) -> WithText {
        WithText
    }
}

impl<T, E> ErrorKind for &Of<Result<T, E>> {}

/// A conversion of the error to its text.
pub struct WithText;

impl WithText {
    /// Returns the value, or a failure with the text of the error and of its causes.
    pub fn value<T, E: ToolFailure>(self, returned: Result<T, E>) -> Result<T, ToolError> {
        returned.map_err(|error| ToolError::Failed(error.text()))
    }
}

/// An error that tools can return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return the error `{Self}`",
    label = "the model reads the text of the error",
    note = "return an error that implements `Display`, such as `String`, `anyhow::Error` or \
            `loopwright::ToolError`"
)]
pub trait ToolFailure {
    /// Returns the text for the model.
    fn text(&self) -> String;
}

impl<E: Display> ToolFailure for E {
    fn text(&self) -> String {
        format!("{self:#}")
    }
}

/// The kind of every other type.
pub trait AnyKind {
    /// Returns the conversion of the value.
    fn kind(&self) -> Infallible {
        Infallible
    }
}

impl<T> AnyKind for Of<T> {}

/// A conversion that keeps the value.
pub struct Infallible;

impl Infallible {
    /// Returns the value.
    pub fn value<T>(self, returned: T) -> Result<T, ToolError> {
        Ok(returned)
    }
}

/// The form of types that convert into an output.
pub trait OutputForm {
    /// Returns the conversion to an output.
    fn form(&self) -> AsOutput {
        AsOutput
    }
}

impl<T: Into<ToolOutput>> OutputForm for &&Of<T> {}

/// A conversion by `Into`.
pub struct AsOutput;

impl AsOutput {
    /// Returns the output.
    pub fn output(self, value: impl Into<ToolOutput>) -> Result<ToolOutput, ToolError> {
        Ok(value.into())
    }
}

/// The form of `()`.
pub trait UnitForm {
    /// Returns the conversion to an output.
    fn form(&self) -> AsDone {
        AsDone
    }
}

impl UnitForm for &Of<()> {}

/// A conversion to the text `Done.`
pub struct AsDone;

impl AsDone {
    /// Returns the output.
    pub fn output(self, (): ()) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("Done."))
    }
}

/// The form of every other type.
pub trait AnyForm {
    /// Returns the conversion to an output.
    fn form(&self) -> AsJson {
        AsJson
    }
}

impl<T> AnyForm for Of<T> {}

/// A conversion to JSON.
pub struct AsJson;

impl AsJson {
    /// Returns the output.
    pub fn output<T: ToolValue>(self, value: T) -> Result<ToolOutput, ToolError> {
        value.json().map(ToolOutput::text).map_err(ToolError::failed)
    }
}

/// A value that tools can return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "the model reads what is returned",
    note = "return a `String`, a type that implements `serde::Serialize`, a \
            `loopwright::ToolOutput`, or a `Result` with one of them"
)]
pub trait ToolValue {
    /// Returns the value as JSON.
    fn json(&self) -> Result<String, serde_json::Error>;
}

impl<T: Serialize> ToolValue for T {
    fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}
