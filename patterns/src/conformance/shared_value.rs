//! The rule [`Rule::SharedValue`](super::Rule::SharedValue).

use loopwright_core::testing::CheckError;

use super::product::Product;
use super::session::{Disturbance, Ended, Pause, Session, Until};
use super::subject::Subject;

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    for append in 1..subject.complete.appends.len() {
        let checked = check_append(subject, append).await;
        checked.map_err(|(which, error)| {
            let last = subject.last_entry(append);
            let place = format!("with another session on the same value right after {last}");
            error.when(format!("{place}, in {which}"))
        })?;
    }
    Ok(())
}

/// Runs a session, and another one on the same value of the pattern while the first one pauses
/// after an append.
async fn check_append(
    subject: &Subject<'_>,
    append: usize,
) -> Result<(), (&'static str, CheckError)> {
    let value = subject.new_value();
    let pause = Pause::default();
    let first = async {
        let model = subject.model();
        let builder = subject.agent(value.clone(), &model);
        let disturbance = Some((append, Disturbance::Pause(pause.clone())));
        let session = subject.open_with(builder, model, disturbance).await;
        let ended = run(session).await;
        pause.reached.open();
        ended
    };
    let second = async {
        pause.reached.wait().await;
        let model = subject.model();
        let builder = subject.agent(value.clone(), &model);
        subject.count(1);
        let ended = run(Session::open("t", subject.scenario, builder, model, None).await).await;
        pause.resume.open();
        ended
    };
    let (first, second) = tokio::join!(first, second);
    for (which, ended) in [("the first session", first), ("the second session", second)] {
        let compared = ended
            .and_then(|ended| Product::of(&ended.log, 0).expect(&subject.product(), &ended.log));
        compared.map_err(|why| (which, why))?;
    }
    Ok(())
}

async fn run(session: Result<Session<'_>, CheckError>) -> Result<Ended, CheckError> {
    let session = session?;
    session.run(Until::End).await?;
    session.end().await
}
