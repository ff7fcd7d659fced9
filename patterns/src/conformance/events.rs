//! The rule [`Rule::Events`](super::Rule::Events).

use loopwright_core::log::SessionLog;
use loopwright_core::testing::check_events;

use super::subject::Subject;

pub(super) fn check(subject: &Subject<'_>) -> Result<(), String> {
    let live = &subject.complete.events;
    check_events(live)?;
    let logged = SessionLog::events("s", &subject.complete.log);
    let mut last = 0;
    for event in live {
        if event.seq == last {
            continue; // it is transient
        }
        last = event.seq;
        let expected = logged.get(last as usize - 1).map(|logged| &logged.event);
        if expected != Some(&event.event) {
            return Err(format!("event {last} is {:?}, and {expected:?} in the log", event.event));
        }
    }
    if last as usize == logged.len() {
        return Ok(());
    }
    Err(format!("{last} events were emitted, and {} are in the log", logged.len()))
}
