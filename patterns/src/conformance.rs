//! A test suite that checks whether a behaviour pattern keeps the contract of [`BehaviorPattern`].
//!
//! The suite runs scenarios: first undisturbed, then with a crash or an abort after each append to
//! the session's log, with messages of the user at each append, with a model that fails at each
//! request, with each limit at each request, and beside another session. It names the [`Rule`] that
//! the pattern breaks.
//!
//! ```
//! use loopwright_patterns::{PiPattern, conformance};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), conformance::Violation> {
//! // In a test: #[tokio::test(start_paused = true)], which needs tokio's feature `test-util`.
//! let report = conformance::check(|| PiPattern, conformance::scenarios()).await?;
//! assert!(report.sessions > 100);
//! # Ok(()) }
//! ```
//!
//! [`scenarios`] returns the scenarios that come with the suite. They fit a pattern that passes
//! each reply to [`call_tools`](loopwright_core::StepContext::call_tools) and accepts any text.
//! Such a pattern may send any number of requests: after the scripted replies, the answer is
//! "Done.". A pattern that needs other replies, other models or a host's values gets them from
//! [`Scenario::reply_with`] and [`Scenario::agent`], or has its own scenarios:
//!
//! ```
//! use loopwright_core::testing::Script;
//! use loopwright_patterns::GenericPattern;
//! use loopwright_patterns::conformance::{self, Scenario};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), conformance::Violation> {
//! let own = Scenario::new("two requests", ["One.", "Two."].map(Script::text))
//!     .request("Count.")
//!     .request("Count further.");
//! let scenarios = conformance::scenarios().into_iter().chain([own]);
//! let with_critic = scenarios
//!     .map(|scenario| scenario.agent(|agent, model| agent.model_named("critic", model.clone())));
//! conformance::check(|| GenericPattern, with_critic).await?;
//! # Ok(()) }
//! ```
//!
//! Values that a pattern keeps for the session ([`set_session_state`]) must not change the results
//! of the scenarios, since the suite runs them more than once in a session.
//!
//! [`set_session_state`]: loopwright_core::StepContext::set_session_state
//!
//! The suite needs a tokio runtime with time. Under paused time, waiting costs nothing.

mod aborts;
mod calls;
mod crashes;
mod events;
mod limits;
mod messages;
mod model_errors;
mod product;
mod scenario;
mod scenarios;
mod session;
mod shared_value;
mod subject;
mod violation;

use std::sync::Arc;

use loopwright_core::BehaviorPattern;

pub use scenario::Scenario;
pub use scenarios::scenarios;
pub use violation::{Rule, Violation};

use subject::Subject;

/// The counts of a run of [`check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of scenarios.
    pub scenarios: usize,
    /// The number of sessions that were run and compared.
    pub sessions: usize,
}

/// Checks the rules for a pattern in each scenario.
///
/// `pattern` returns a new value of the pattern each time. The rules are checked in the order of
/// [`Rule`], each in every scenario. The first broken rule is reported.
///
/// # Errors
///
/// Returns the broken rule, the scenario, what was observed and when, and the log that shows it.
///
/// ```
/// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
/// use loopwright_patterns::conformance::{self, Rule};
///
/// /// Takes no steers and no follow-ups.
/// struct Once;
///
/// #[async_trait]
/// impl BehaviorPattern for Once {
///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
///         step.take_input().await?;
///         loop {
///             let reply = step.ask().await?.or_end()?;
///             let batch = step.call_tools(&reply).await?.or_end()?;
///             if !batch.wants_reply() {
///                 return Ok(StepEnd::Done);
///             }
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// let violation = conformance::check(|| Once, conformance::scenarios()).await.unwrap_err();
/// assert_eq!(violation.rule(), Rule::Messages);
/// # }
/// ```
pub async fn check<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    scenarios: impl IntoIterator<Item = Scenario>,
) -> Result<Report, Violation> {
    let scenarios: Vec<Scenario> = scenarios.into_iter().collect();
    let new_value = || Arc::new(pattern()) as Arc<dyn BehaviorPattern>;
    let mut subjects = Vec::new();
    for scenario in &scenarios {
        subjects.push(Subject::run(&new_value, scenario).await?);
    }
    for rule in Rule::ALL {
        for subject in &subjects {
            let checked = match rule {
                Rule::Sessions => Ok(()),
                Rule::Events => events::check(subject),
                Rule::Calls => calls::check(subject),
                Rule::Messages => messages::check(subject).await,
                Rule::Crashes => crashes::check(subject).await,
                Rule::Aborts => aborts::check(subject).await,
                Rule::ModelErrors => model_errors::check(subject).await,
                Rule::Limits => limits::check(subject).await,
                Rule::SharedValue => shared_value::check(subject).await,
            };
            checked.map_err(|error| subject.violation(rule, error))?;
        }
    }
    let sessions = subjects.iter().map(Subject::sessions).sum();
    Ok(Report { scenarios: scenarios.len(), sessions })
}
