//! Distillation of facts at the end of a session.

use std::time::Duration;

use loopwright_core::AgentHandle;
use loopwright_memory::long_term::{distil_session, is_distil_due};
use tokio::time::timeout;

use crate::interrupt::Interrupt;
use crate::output;

/// Time limit for the model at the end of a session.
const DISTIL_TIMEOUT: Duration = Duration::from_secs(60);

/// Distils facts from a session that ends, if the user has written something since the last time.
/// Ctrl-C skips it. After a failure, the session's next end tries once more.
pub(crate) async fn distil_at_end(handle: &AgentHandle) {
    if !handle.state().await.is_ok_and(|state| is_distil_due(&state)) {
        return;
    }
    output::info("Facts about you are distilled from this conversation; Ctrl-C skips that.");
    let mut interrupt = Interrupt::listen();
    let skipped = async {
        match &mut interrupt {
            Ok(interrupt) => interrupt.pressed().await,
            Err(_) => std::future::pending().await,
        }
    };
    let distilled = tokio::select! {
        done = timeout(DISTIL_TIMEOUT, distil_session(handle)) => done,
        () = skipped => return abort(handle).await,
    };
    match distilled {
        Ok(Ok(Some(outcome))) if outcome.has_finished() => output::info(&outcome.text),
        Ok(Ok(outcome)) => {
            let why = outcome.and_then(|outcome| {
                let limit = outcome.limit.map(|limit| format!("{limit} is reached"));
                outcome.error.map(|why| why.to_string()).or(limit)
            });
            let why = why.unwrap_or_default();
            output::error(&format!("No facts were distilled: {why}."));
        }
        Ok(Err(why)) => output::error(&format!("No facts were distilled: {why}.")),
        Err(_) => {
            abort(handle).await;
            let seconds = DISTIL_TIMEOUT.as_secs();
            output::error(&format!(
                "No facts were distilled: the model has not answered for {seconds} seconds."
            ));
        }
    }
}

async fn abort(handle: &AgentHandle) {
    let _ = handle.abort().await; // unless the run has ended
    handle.wait_for_idle().await;
}
