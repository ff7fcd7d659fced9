//! What the code that `#[tool]`, `#[tools]` and `#[main]` generate refers to. Not a public API.
//!
//! What a tool returns is told apart by its type and not by how it is written, so that aliases such
//! as `anyhow::Result` work: of the traits of [`Of`], method resolution takes the first that is
//! implemented, and those for references to references come first.

use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;

use loopwright_core::agent::Extensions;
use loopwright_core::serde_json::{self, Value};
use loopwright_core::{ToolError, ToolOutput};
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

/// Returns a rule for approvals from one of the typed arguments. Arguments that cannot be read need
/// an approval.
pub fn typed_rule<A: DeserializeOwned>(
    rule: impl Fn(&A) -> bool + Send + Sync + 'static,
) -> impl Fn(&Value, &Extensions) -> bool + Send + Sync + 'static {
    move |arguments, _| A::deserialize(arguments).map_or(true, |arguments| rule(&arguments))
}

/// Stands for a type, for method resolution.
pub struct Of<T>(PhantomData<fn() -> T>);

impl<T> Of<T> {
    /// Returns the type of a value.
    pub fn new(_: &T) -> Self {
        Of(PhantomData)
    }
}

/// Is implemented for `Result<T, ToolError>`.
pub trait ToolErrorKind {
    /// Returns how the value is taken.
    fn kind(&self) -> AsItIs {
        AsItIs
    }
}

impl<T> ToolErrorKind for &&Of<Result<T, ToolError>> {}

/// Returns the result as it is.
pub struct AsItIs;

impl AsItIs {
    /// Returns the value, or the error.
    pub fn value<T>(self, returned: Result<T, ToolError>) -> Result<T, ToolError> {
        returned
    }
}

/// Is implemented for every other `Result`.
pub trait ErrorKind {
    /// Returns how the value is taken.
    fn kind(&self) -> WithText {
        WithText
    }
}

impl<T, E> ErrorKind for &Of<Result<T, E>> {}

/// Turns the error into its text.
pub struct WithText;

impl WithText {
    /// Returns the value, or a failure with the text of the error and of its causes.
    pub fn value<T, E: ToolFailure>(self, returned: Result<T, E>) -> Result<T, ToolError> {
        returned.map_err(|error| ToolError::Failed(error.text()))
    }
}

/// Is implemented for the errors that tools can return.
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

/// Is implemented for every other type.
pub trait AnyKind {
    /// Returns how the value is taken.
    fn kind(&self) -> Infallible {
        Infallible
    }
}

impl<T> AnyKind for Of<T> {}

/// Takes the value itself.
pub struct Infallible;

impl Infallible {
    /// Returns the value.
    pub fn value<T>(self, returned: T) -> Result<T, ToolError> {
        Ok(returned)
    }
}

/// Is implemented for what converts into an output.
pub trait OutputForm {
    /// Returns how the output is made.
    fn form(&self) -> AsOutput {
        AsOutput
    }
}

impl<T: Into<ToolOutput>> OutputForm for &&Of<T> {}

/// Converts the value.
pub struct AsOutput;

impl AsOutput {
    /// Returns the output.
    pub fn output(self, value: impl Into<ToolOutput>) -> Result<ToolOutput, ToolError> {
        Ok(value.into())
    }
}

/// Is implemented for `()`.
pub trait UnitForm {
    /// Returns how the output is made.
    fn form(&self) -> AsDone {
        AsDone
    }
}

impl UnitForm for &Of<()> {}

/// Says that the call is done.
pub struct AsDone;

impl AsDone {
    /// Returns the output.
    pub fn output(self, (): ()) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("Done."))
    }
}

/// Is implemented for every other type.
pub trait AnyForm {
    /// Returns how the output is made.
    fn form(&self) -> AsJson {
        AsJson
    }
}

impl<T> AnyForm for Of<T> {}

/// Writes the value as JSON.
pub struct AsJson;

impl AsJson {
    /// Returns the output.
    pub fn output<T: ToolValue>(self, value: T) -> Result<ToolOutput, ToolError> {
        value.json().map(ToolOutput::text).map_err(ToolError::failed)
    }
}

/// Is implemented for the values that tools can return.
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
