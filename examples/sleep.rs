//! An agent that waits until tomorrow at nine, and reports then, in another process.
//!
//! `cargo run --example sleep`
//!
//! The timer is in the session's log, in SQLite. This process answers and ends its work; a second
//! one, the same program with the path of the store, wakes the agent. Its clock is moved, so that
//! nobody has to wait for the morning.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use loopwright::memory::Sqlite;
use loopwright::message::UserMessage;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestClock};
use loopwright::{BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, async_trait};

/// Answers, and reports tomorrow at nine.
struct Tomorrow;

#[async_trait]
impl BehaviorPattern for Tomorrow {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&PiPattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if end != StepEnd::Done || step.state("reported") == Some(true) {
            return Ok(end);
        }
        let nine = tomorrow_at_nine(step.now()).map_err(StepError::pattern)?;
        step.sleep_until("report", nine).await?; // the next line runs at that time
        step.set_state("reported", true)?;
        step.remember(UserMessage::from("It is nine. Write the report now.")).await?;
        PiPattern.next_step(step).await
    }
}

/// Returns the next day's nine o'clock in the machine's time zone, in milliseconds since 1970.
fn tomorrow_at_nine(now: u64) -> Result<u64, jiff::Error> {
    let zone = TimeZone::system();
    let today = Timestamp::from_millisecond(now as i64)?.to_zoned_datetime(zone.clone()).date();
    let nine = today.tomorrow()?.at(9, 0, 0, 0).to_zoned_datetime(zone)?;
    Ok(nine.timestamp().as_millisecond() as u64)
}

fn agent(replies: &[&str], clock: &TestClock) -> Result<GenericAgent, Box<dyn Error>> {
    let model = ScriptedModel::new(replies.iter().map(|reply| Script::text(reply)));
    Ok(GenericAgent::builder(model, Tomorrow).environment(clock.clone()).build()?)
}

/// The first process: the user asks for the report, and talks to the agent that waits.
async fn ask(store: &Path) -> Result<(), Box<dyn Error>> {
    let clock = TestClock::default();
    clock.advance_to("2026-11-30T12:00Z".parse::<Timestamp>()?.as_millisecond() as u64).await;
    let agent = agent(&["I will report at nine.", "Yes, I am only waiting."], &clock)?;
    let session = agent.open(&Sqlite::open(store)?, "report").await?;
    println!("{:?}", session.prompt("Report tomorrow at nine.").await?.end);
    println!("{}", session.prompt("Are you there?").await?.text);
    session.close().await;
    Ok(())
}

/// The second process, which only wakes agents: a program calls `keep_running_due`.
async fn wake(store: &Path) -> Result<(), Box<dyn Error>> {
    let (store, clock) = (Sqlite::open(store)?, TestClock::default());
    let agent = agent(&["The report: all is well."], &clock)?;
    while let Some(time) = agent.run_due(&store).await? {
        let local = Timestamp::from_millisecond(time as i64)?.to_zoned_datetime(TimeZone::system());
        println!("nothing to do before {}", local.datetime());
        clock.advance_to(time).await;
    }
    for message in agent.open(&store, "report").await?.state().await?.messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(store) = std::env::args_os().nth(1) {
        return wake(Path::new(&store)).await;
    }
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("sessions.db");
    ask(&store).await?;
    Command::new(std::env::current_exe()?).arg(&store).status()?;
    Ok(())
}
