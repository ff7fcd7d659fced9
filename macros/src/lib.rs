//! The attributes `#[tool]`, `#[tools]` and `#[main]` of `loopwright`, which re-exports them.
//!
//! Use them through `loopwright`, with its default feature `macros`: the generated code refers to
//! that crate.

mod entry;
mod expand;
mod options;
mod signature;

use proc_macro::TokenStream;
use syn::{ItemFn, ItemImpl, parse_macro_input};

use crate::options::ToolOptions;

/// Turns a function into a tool.
///
/// The function, sync or async, is replaced by a function without arguments that returns the
/// [`Tool`](../loopwright/trait.Tool.html): `weather()` below. Its doc comment is the description
/// for the model, and doc comments of parameters are their descriptions. The parameters form the
/// schema; their types implement `Deserialize` and `JsonSchema`.
///
/// ```
/// use loopwright::{Tool, tool};
///
/// /// Returns the weather in a city.
/// #[tool(read_only)]
/// fn weather(
///     /// The city, such as `Rome`.
///     city: &str,
/// ) -> String {
///     format!("{city}: 21 °C, dry")
/// }
///
/// let spec = weather().spec().clone();
/// assert_eq!(spec.description, "Returns the weather in a city.");
/// assert_eq!(spec.schema["properties"]["city"]["description"], "The city, such as `Rome`.");
/// ```
///
/// # Parameters
///
/// - `&str` is read as a `String` and borrowed. All other parameters are owned.
/// - The model can leave out `Option<T>`.
/// - A parameter of the type `ToolContext` or `&ToolContext` is not part of the schema: it gets the
///   context of the call, with its cancellation, progress and the values of the host.
/// - `#[serde(…)]` and `#[schemars(…)]` on a parameter apply to it: `#[schemars(range(min = 1))]`.
///
/// They are fields of a struct named after the function, `WeatherArgs`, with the function's
/// visibility.
///
/// # Return types
///
/// - `String`, `&str`, `serde_json::Value` and `ToolOutput` are the output of the call. Every other
///   type that implements `Serialize` becomes JSON, and `()` the text `Done.`
/// - The error of a `Result` can be of any type that implements `Display`. The model reads its
///   text, formatted with `{:#}`. A `ToolError` is returned unchanged.
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `read_only`, `idempotent`, `at_most_once` | the [effect]; without one it is `at_most_once` |
/// | `approval = always`, `approval = never` | whether calls need approval; see below |
/// | `approval = rule` | whether a call needs approval, by a function of `&WeatherArgs` |
/// | `timeout = "20s"` | the time limit of a call: `ms`, `s`, `m` or `h` |
/// | `idle_timeout = "500ms"` | the time without progress after which a call is cancelled |
/// | `sequential` | runs all calls of a batch that contains this tool one after the other |
/// | `uninterruptible` | steers do not cancel a call |
/// | `name = "…"` | the name for the model; the function's by default |
/// | `title = "…"` | the title that front ends show |
/// | `description = "…"` | the description, instead of the doc comment |
///
/// Without `approval` the rules of the agent decide: by default, only tools with `read_only` run
/// without approval. A rule is a function or a closure. A call needs approval if the rule cannot
/// read its arguments, or panics.
///
/// [effect]: ../loopwright/tool/enum.Effect.html
///
/// ```
/// use loopwright::{GenericAgent, ToolContext, tool};
///
/// /// Pays an amount to a person.
/// #[tool(sequential, timeout = "20s", approval = |args: &PayArgs| args.euros > 100)]
/// async fn pay(
///     to: String,
///     #[schemars(range(min = 1, max = 9000))] euros: u32,
///     cx: &ToolContext,
/// ) -> Result<String, std::io::Error> {
///     Ok(format!("{euros} € for {to}, order {}", cx.idempotency_key()))
/// }
/// # fn agent(builder: loopwright::AgentBuilder) -> loopwright::AgentBuilder {
/// builder.tool(pay())
/// # }
/// ```
///
/// # Panics
///
/// A panic of the function becomes an error result of the call.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as ToolOptions);
    let function = parse_macro_input!(item as ItemFn);
    expand::tool(options, function).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Turns the methods of an `impl` block that are marked with `#[tool]` into tools.
///
/// The methods take `&self`, or `self: Arc<Self>`; everything else is the same as for
/// [`macro@tool`]. The struct of the arguments of `Bank::transfer` is `BankTransferArgs`. The type
/// gets the trait [`Tools`](../loopwright/trait.Tools.html), whose method `tools` returns the tools
/// of a value in an `Arc`. All methods stay callable.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use loopwright::{Tools, tools};
///
/// #[derive(Default)]
/// struct Counter {
///     count: AtomicU32,
/// }
///
/// #[tools]
/// impl Counter {
///     /// Adds to the counter and returns its new value.
///     #[tool(at_most_once)]
///     fn add(&self, amount: u32) -> u32 {
///         self.count.fetch_add(amount, Ordering::Relaxed) + amount
///     }
/// }
///
/// let counter = Arc::new(Counter::default());
/// assert_eq!(counter.add(2), 2);
/// assert_eq!(&*counter.tools()[0].spec().name, "add");
/// ```
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    let block = parse_macro_input!(item as ItemImpl);
    expand::tools(options.into(), block).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Runs an async `main` function on a multi-threaded tokio runtime, for programs that do not depend
/// on tokio themselves. For other runtimes use `#[tokio::main]`.
///
/// ```
/// #[loopwright::main]
/// async fn main() -> Result<(), std::io::Error> {
///     Ok(())
/// }
/// ```
///
/// The process exits with status 1 if the runtime cannot be started, or if the function returns an
/// error, whose text it prints.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    entry::main(options.into(), function).unwrap_or_else(|e| e.to_compile_error()).into()
}
