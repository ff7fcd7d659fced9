//! The clock of a session under test: a test moves it, and deadlines pass without any wait.

use crate::kit::*;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Asks whether to pay, with a deadline of a day.
fn asks() -> impl BehaviorPattern {
    does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let options = ActionOptions::new().deadline(24 * HOUR);
            let question = Question::choice("Pay?", ["yes", "no"]).options(options);
            match step.question("pay", question).await? {
                QuestionStatus::Waiting => return Ok(StepEnd::AwaitingAction),
                QuestionStatus::Declined(why) => drop(step.remember(UserMessage::from(why)).await?),
                _ => {}
            }
            step.ask().await?.finish()
        })
    })
}

/// C500: a test moves the clock of a session: what is due by then happens, and nothing before.
/// Nothing sleeps, and the time is not paused.
#[tokio::test]
async fn a_moved_clock_lets_a_deadline_pass() {
    let mut harness = Harness::new(asks(), [Script::text("Not paid.")], |agent| agent).await;
    harness.handle.prompt("Pay the bill.").await.unwrap();
    harness.drain_events();
    harness.clock.advance(23 * HOUR).await;
    harness.handle.wait_for_idle().await;
    assert_eq!((harness.pending().await.len(), harness.drain_events().len()), (1, 0));
    harness.clock.advance(HOUR).await;
    let events = harness.run_end().await;
    assert_eq!((end_of(&events), events[0].time), (RunStatus::Done, 24 * 3_600_000));
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Not paid./Stop");
    harness.check().await;
}

/// C500: the clock stays where it is when the session is opened again, and a deadline that passed
/// meanwhile is due at once.
#[tokio::test]
async fn a_clock_moves_while_no_session_is_open() {
    let harness = Harness::new(asks(), [Script::text("Not paid.")], |agent| agent).await;
    harness.handle.prompt("Pay the bill.").await.unwrap();
    let entries = harness.memory.entries();
    harness.handle.close().await;
    harness.clock.advance(25 * HOUR).await;
    let harness = harness.restart_from(entries).await;
    assert_eq!(harness.clock.now(), 25 * 3_600_000);
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Not paid./Stop");
}

/// C500: under paused time, too, only the test moves the clock.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_move_the_clock_of_the_test() {
    let harness = Harness::new(asks(), [Script::text("Not paid.")], |agent| agent).await;
    harness.handle.prompt("Pay the bill.").await.unwrap();
    tokio::time::advance(48 * HOUR).await;
    assert_eq!((harness.clock.now(), harness.pending().await.len()), (0, 1));
    harness.clock.advance(24 * HOUR).await;
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.pending().await, []);
}

/// C500: all clones are one clock, and each wakes every session.
#[tokio::test]
async fn several_sessions_share_a_clock() {
    let clock = TestClock::default();
    let open = async || {
        let agent = |agent: AgentBuilder| agent.environment(clock.clone());
        let harness = Harness::new(asks(), [Script::text("Not paid.")], agent).await;
        harness.handle.prompt("Pay the bill.").await.unwrap();
        harness
    };
    let (first, second) = (open().await, open().await);
    clock.advance(24 * HOUR).await;
    for harness in [first, second] {
        harness.handle.wait_for_idle().await;
        assert_eq!(harness.pending().await, []);
    }
}
