//! The rule [`Rule::Crashes`](super::Rule::Crashes).

use loopwright_core::testing::crash_at_every_append;

use super::subject::Subject;

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), String> {
    let agent = |model| subject.agent(subject.new_value(), &model);
    let report = crash_at_every_append(agent, subject.scenario.for_crashes()).await?;
    subject.count(report.compared);
    Ok(())
}
