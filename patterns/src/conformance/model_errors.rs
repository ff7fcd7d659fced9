//! The rule [`Rule::ModelErrors`](super::Rule::ModelErrors).

use loopwright_core::event::RunStatus;
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::Script;

use super::product::{Product, count_requests, request_groups};
use super::session::{Until, ends_with};
use super::subject::Subject;

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), String> {
    if !subject.succeeds() || !subject.has_whole_replies() {
        return Ok(());
    }
    for request in 0..subject.complete.played.len() {
        let checked = check_request(subject, request).await;
        checked.map_err(|why| format!("with a model that fails at request {request}: {why}"))?;
    }
    Ok(())
}

/// Runs the scenario with a model that fails at one request and is asked again.
async fn check_request(subject: &Subject<'_>, request: usize) -> Result<(), String> {
    let mut replies = subject.complete.played.clone();
    let error = Script::error(ModelErrorKind::Overloaded, "the model is overloaded");
    // The other requests of its group are answered before the run ends.
    let groups = request_groups(&subject.complete.log);
    let (end_of_group, is_kept) = groups.get(request).copied().unwrap_or((request + 1, true));
    let failed = std::mem::replace(&mut replies[request], error);
    replies.insert(end_of_group, failed);
    let session = subject.open(subject.model_with(replies), None).await?;
    session.run(Until::End).await?;
    let log = session.end().await?.log;
    let Some(end) = log.iter().position(|entry| ends_with(entry, RunStatus::Error)) else {
        return Err("no run ends with an error".into());
    };
    let requests = count_requests(&log[..end]);
    if requests != end_of_group {
        let more = requests.saturating_sub(end_of_group);
        return Err(format!("{more} more requests are sent before the run ends"));
    }
    // Without keys, the whole group is sent again. With another run, an input with a condition may
    // arrive at another time.
    if !is_kept || subject.scenario.inputs.iter().any(|input| input.when.is_some()) {
        return Ok(());
    }
    let mut product = Product::of(&log, 0);
    product.remove_failed_run(&log[..end])?;
    product.expect(&subject.product()).map_err(|why| format!("after `Continue`: {why}"))
}
