//! OpenTelemetry for sessions: spans and metrics by the semantic conventions for generative AI,
//! exported over OTLP.
//!
//! [`SessionFold`] folds a session's events, without a clock or a network. It returns [`Signal`]s,
//! which [`Telemetry`] exports in batches, in the background.
//!
//! | span | kind | parent |
//! |---|---|---|
//! | `invoke_agent AGENT` | internal | the span of the request, or the call of the sub-agent |
//! | `chat MODEL` | client | the run |
//! | `execute_tool TOOL` | internal | the run |
//!
//! [`TraceContext`] derives the ids of spans. So tools and model servers that were sent a context
//! name the same spans as parents, and a run that another process continues is one span. Messages
//! and arguments are exported only on request: see [`TelemetryBuilder::capture_content`].
//!
//! ```no_run
//! use loopwright_otel::Telemetry;
//! use loopwright_core::testing::{Script, ScriptedModel};
//! use loopwright_core::{GenericAgent, RunContext};
//! # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
//! # struct Once;
//! # #[async_trait::async_trait]
//! # impl BehaviorPattern for Once {
//! #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
//! #         step.take_input().await?;
//! #         step.ask().await?.finish()
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let telemetry = Telemetry::builder().endpoint("http://127.0.0.1:4318").build()?;
//! let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
//! let cx = RunContext::new().with(telemetry.trace_context(None, None));
//! let (handle, _) = agent.run(cx).await?;
//! let events = handle.subscribe_tree();
//! let exported = telemetry.follow(events, "greeter", &handle.state().await?);
//! handle.prompt("Hello").await?;
//! handle.close().await;
//! exported.await?;
//! telemetry.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! [`TraceContext`]: loopwright_core::TraceContext

#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod content;
mod conventions;
mod exporter;
mod fold;
mod http_client;
mod instruments;
mod session;
mod settings;
mod signal;
mod span;
mod span_batches;
mod telemetry;

pub use builder::TelemetryBuilder;
pub use conventions::Conventions;
pub use fold::SessionFold;
pub use settings::TelemetryError;
pub use signal::{Measurement, Metric, Signal};
pub use telemetry::{SessionTelemetry, Telemetry};
