//! Patterns that wait until a time, or for an event, in the suites.

use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::log::LogEntry;
use loopwright_core::message::UserMessage;
use loopwright_core::testing::{Script, ScriptedSession, crash_at_every_append};
use loopwright_core::{BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError};
use loopwright_patterns::PiPattern;
use loopwright_patterns::conformance::Scenario;

use crate::kit::assert_conforms;

/// Answers, and reports after an hour: the pattern of the guide.
struct Later;

#[async_trait]
impl BehaviorPattern for Later {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&PiPattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if end != StepEnd::Done || step.state("reported") == Some(true) {
            return Ok(end);
        }
        step.sleep_for("report", Duration::from_secs(3_600)).await?;
        step.set_state("reported", true)?;
        step.remember(UserMessage::from("Write the report now.")).await?;
        PiPattern.next_step(step).await
    }
}

/// C504: A pattern that sleeps conforms: a crash or an abort at any append changes nothing else.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_sleeps_conforms() {
    let reports = || ["I will.", "All is well.", "I will again.", "Still well."].map(Script::text);
    let scenarios = vec![
        Scenario::new("one report", reports()).request("Report later."),
        Scenario::new("two reports", reports()).request("Report later.").request("And again."),
    ];
    assert_conforms(|| Later, scenarios).await;
    let session = ScriptedSession::new(reports()).request("Report later.").request("And again.");
    let agent = |model| GenericAgent::builder(model, Later);
    let report = crash_at_every_append(agent, session.clone()).await.unwrap();
    assert!(report.appends > 10 && report.compared == report.appends, "{report}");
    crash_at_every_append(agent, session.join_appends()).await.unwrap();
}

/// Answers, and answers again when the order is paid, or when nobody has paid for a day.
struct Order;

#[async_trait]
impl BehaviorPattern for Order {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&PiPattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if end != StepEnd::Done || step.state("handled") == Some(true) {
            return Ok(end);
        }
        let tomorrow = step.now() + 86_400_000;
        let paid = step.wait_for_event("paid", tomorrow).await?;
        step.set_state("handled", true)?;
        let text = paid.map_or("Nobody has paid.".into(), |paid| format!("Paid: {paid}"));
        step.remember(UserMessage::from(text)).await?;
        PiPattern.next_step(step).await
    }
}

/// C536: A pattern that waits for an event conforms: wherever a crash or an abort cuts the log, it
/// continues once, with the signal or when the time has come.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_waits_for_an_event_conforms() {
    let replies = || ["Please pay.", "Thank you.", "Please pay.", "Thanks."].map(Script::text);
    let asks = |entry: &LogEntry| matches!(entry, LogEntry::RequestStarted { .. });
    let scenario = |name| Scenario::new(name, replies()).request("The book.");
    let scenarios = vec![
        scenario("a signal").signal("paid", 20),
        scenario("no signal"),
        scenario("an early signal").signal("paid", 20).when(asks),
        scenario("two requests").signal("paid", 20).request("Another.").signal("paid", 30),
        scenario("a steer").steer("A cheap one.").when(asks).signal("paid", 20),
    ];
    assert_conforms(|| Order, scenarios).await;
    let session = ScriptedSession::new(replies()).request("The book.").signal("paid", 20);
    let session = session.request("Another.").signal("paid", 30);
    let agent = |model| GenericAgent::builder(model, Order);
    let report = crash_at_every_append(agent, session.clone()).await.unwrap();
    assert!(report.appends > 10 && report.compared == report.appends, "{report}");
    crash_at_every_append(agent, session.join_appends()).await.unwrap();
}
