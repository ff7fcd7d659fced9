//! Tools built from functions: [`tool_fn`] and [`tool_with`].

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ToolError;
use crate::tool::{Approval, Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// Builds a tool from an async function without state. The arguments are deserialised into `A`,
/// whose schema describes them to the model.
///
/// ```
/// use loopwright_core::{ToolError, tool_fn};
/// use loopwright_core::tool::Effect;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// let add = tool_fn("add", "Adds two integers.", async |args: Add, _cx| {
///     Ok::<_, ToolError>((args.a + args.b).to_string())
/// })
/// .effect(Effect::ReadOnly);
/// ```
pub fn tool_fn<A, F, Fut, R>(name: &str, description: &str, f: F) -> FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A, ToolContext) -> Fut,
    Fut: Future<Output = Result<R, ToolError>>,
    R: Into<ToolOutput>,
{
    FnTool::from_spec(ToolSpec::new::<A>(name, description), f)
}

/// Builds a tool from an async function with state, which is cloned for each call.
///
/// ```
/// use std::sync::Arc;
/// use loopwright_core::{ToolError, tool_with};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greet {
///     name: String,
/// }
///
/// let greeting: Arc<str> = "Hello".into();
/// let greet = tool_with(greeting, "greet", "Greets someone.", async |greeting, args: Greet, _cx| {
///     Ok::<_, ToolError>(format!("{greeting}, {}!", args.name))
/// });
/// ```
pub fn tool_with<S, A, F, Fut, R>(
    state: S,
    name: &str,
    description: &str,
    f: F,
) -> FnTool<A, impl Fn(A, ToolContext) -> Fut + use<S, A, F, Fut, R>>
where
    S: Clone,
    A: DeserializeOwned + JsonSchema,
    F: Fn(S, A, ToolContext) -> Fut,
    Fut: Future<Output = Result<R, ToolError>>,
    R: Into<ToolOutput>,
{
    let f = move |arguments, cx| f(state.clone(), arguments, cx);
    FnTool::from_spec(ToolSpec::new::<A>(name, description), f)
}

/// A [`Tool`] made of a function; built by [`tool_fn`] and [`tool_with`].
pub struct FnTool<A, F> {
    spec: Arc<ToolSpec>,
    f: F,
    preview: Option<Preview>,
    arguments: PhantomData<fn(A)>,
}

/// A function that computes the change that a call would make.
type Preview =
    Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Option<String>, ToolError>> + Send + Sync>;

impl<A, F> FnTool<A, F> {
    /// Builds a tool from its specification and a function. The function's arguments must be of the
    /// type from which the schema was made.
    ///
    /// ```
    /// use loopwright_core::tool::{FnTool, ToolSpec};
    /// use loopwright_core::{Tool, ToolContext, ToolError};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add {
    ///     a: i64,
    ///     b: i64,
    /// }
    ///
    /// let spec = ToolSpec::new::<Add>("add", "Adds two integers.").title("Addition");
    /// let add = FnTool::from_spec(spec, async |args: Add, _cx: ToolContext| {
    ///     Ok::<_, ToolError>((args.a + args.b).to_string())
    /// });
    /// assert_eq!(Tool::spec(&add).title.as_deref(), Some("Addition"));
    /// ```
    pub fn from_spec<Fut, R>(spec: ToolSpec, f: F) -> Self
    where
        A: DeserializeOwned,
        F: Fn(A, ToolContext) -> Fut,
        Fut: Future<Output = Result<R, ToolError>>,
        R: Into<ToolOutput>,
    {
        FnTool { spec: Arc::new(spec), f, preview: None, arguments: PhantomData }
    }

    /// Sets the function that returns the change that a call would make; see [`Tool::preview`].
    pub fn preview<P>(mut self, preview: impl Fn(Value) -> P + Send + Sync + 'static) -> Self
    where
        P: Future<Output = Result<Option<String>, ToolError>> + Send + 'static,
    {
        self.preview = Some(Arc::new(move |arguments| preview(arguments).boxed()));
        self
    }

    /// Sets the effect.
    pub fn effect(self, effect: Effect) -> Self {
        self.spec(|spec| spec.effect(effect))
    }

    /// Sets when a call needs approval.
    pub fn approval(self, approval: Approval) -> Self {
        self.spec(|spec| spec.approval(approval))
    }

    /// Makes every batch that contains the tool run one call after the other.
    pub fn sequential(self) -> Self {
        self.spec(ToolSpec::sequential)
    }

    /// Changes the specification of the tool.
    pub fn spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = Arc::new(change((*self.spec).clone()));
        self
    }
}

#[async_trait]
impl<A, F, Fut, R> Tool for FnTool<A, F>
where
    A: DeserializeOwned + Send,
    F: Fn(A, ToolContext) -> Fut + Send + Sync,
    Fut: Future<Output = Result<R, ToolError>> + Send,
    R: Into<ToolOutput>,
{
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        Some(
            A::deserialize(arguments)
                .map(drop)
                .map_err(|e| format!("The arguments do not fit: {e}.")),
        )
    }

    async fn preview(&self, arguments: &Value) -> Result<Option<String>, ToolError> {
        match &self.preview {
            Some(preview) => preview(arguments.clone()).await,
            None => Ok(None),
        }
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        // A type can be stricter than the schema that is derived from it.
        let arguments = A::deserialize(arguments)
            .map_err(|e| ToolError::Failed(format!("the arguments cannot be read: {e}")))?;
        Ok((self.f)(arguments, cx).await?.into())
    }
}
