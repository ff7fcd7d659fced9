//! The rule [`Rule::Crashes`](super::Rule::Crashes).

use loopwright_core::testing::{CheckError, crash_at_every_append};

use super::subject::Subject;

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    if subject.uses_up_a_budget() {
        return Ok(()); // a request that a crash loses stays charged, so the budget ends earlier
    }
    let agent = |model| subject.agent(subject.new_value(), &model);
    let report = crash_at_every_append(agent, subject.scenario.session.clone()).await?;
    subject.count(report.compared);
    Ok(())
}
