//! The rule [`Rule::Aborts`](super::Rule::Aborts).

use loopwright_core::event::{AbortRequest, InputEvent};
use loopwright_core::testing::CheckError;

use super::product::Product;
use super::session::{Disturbance, Until};
use super::subject::Subject;

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    // No input can arrive during the first append, which opens the session.
    for append in 1..subject.complete.appends.len() {
        let checked = check_append(subject, append).await;
        checked.map_err(|error| {
            let last = subject.last_entry(append);
            error.when(format!("after an abort right after {last}, when the scenario runs again"))
        })?;
    }
    Ok(())
}

/// Aborts the scenario after an append, and runs it again in the same session.
async fn check_append(subject: &Subject<'_>, append: usize) -> Result<(), CheckError> {
    let abort = Disturbance::Input(InputEvent::Abort(AbortRequest::new()));
    let session = subject.open(subject.model(), Some((append, abort))).await?;
    session.run(Until::Disturbed).await?;
    // A message that came while the session was idle is not part of that run: it would join the
    // next one.
    session.clear_queues().await?;
    let from = session.log().len();
    session.repeat_replies();
    session.run(Until::End).await?;
    let ended = session.end().await?;
    Product::of(&ended.log, from).expect(&subject.product(), &ended.log)
}
