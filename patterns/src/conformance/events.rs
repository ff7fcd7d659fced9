//! The rule [`Rule::Events`](super::Rule::Events).

use std::slice::from_ref;
use std::sync::Arc;

use loopwright_core::log::SessionLog;
use loopwright_core::testing::{CheckError, check_events, trace};

use super::subject::Subject;

pub(super) fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    let (live, log) = (&subject.complete.events, &subject.complete.log);
    check_events(live).map_err(|why| CheckError::new(why).log(log))?;
    let logged = SessionLog::events("s", log);
    let mut last = 0;
    for event in live {
        if event.seq == last {
            continue; // it is transient
        }
        last = event.seq;
        let expected = logged.get(last as usize - 1);
        if expected.map(|logged| &logged.event) != Some(&event.event) {
            let expected = expected.map(|logged| trace(&[Arc::new(logged.clone())]));
            let text = format!("event {last} that was emitted differs from the event of the log");
            let error = CheckError::new(text)
                .note(format!("Emitted: {}", trace(from_ref(event)).trim_end()))
                .note(format!("The log: {}", expected.unwrap_or_default().trim_end()));
            return Err(error.log(log));
        }
    }
    if last as usize == logged.len() {
        return Ok(());
    }
    let text = format!("{last} events were emitted, and the log has {}", logged.len());
    Err(CheckError::new(text).log(log))
}
