//! The reasons why a turn ended.

use loopwright_core::event::{IncompleteReply, RunOutcome, RunStatus};
use loopwright_core::limits::{Limit, Resource};

use crate::rpc::RpcError;

/// Returns the protocol's reason for the end of a turn with this run.
///
/// # Errors
///
/// Returns the error response to the prompt if the run failed or reached a limit for which the
/// protocol has no reason.
pub fn stop_reason(outcome: &RunOutcome) -> Result<&'static str, RpcError> {
    let failed = || {
        let why = outcome.error.as_deref().map(str::to_owned);
        let why = why.or(outcome.incomplete.map(|why| why.to_string()));
        RpcError::internal(why.unwrap_or_else(|| "the run failed".into()))
    };
    match (outcome.end, outcome.incomplete, &outcome.limit) {
        (
            RunStatus::Done | RunStatus::Limit,
            _,
            Some(Limit::Run(Resource::Turns) | Limit::RepeatedCalls),
        ) => Ok("max_turn_requests"),
        (RunStatus::Done | RunStatus::Sleeping | RunStatus::AwaitingAction, ..) => Ok("end_turn"),
        (RunStatus::Aborted, ..) => Ok("cancelled"),
        (_, Some(IncompleteReply::Length), _) => Ok("max_tokens"),
        (_, Some(IncompleteReply::ContentFilter), _) => Ok("refusal"),
        _ => Err(failed()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_turn_ends_with_the_reason_of_its_run() {
        let of = |more: Value| {
            let mut outcome = json!({ "usage": loopwright_core::message::Usage::default(),
                "cost": 0.0, "text": "" });
            let fields = more.as_object().unwrap().clone();
            outcome.as_object_mut().unwrap().extend(fields);
            stop_reason(&serde_json::from_value(outcome).unwrap())
        };
        assert_eq!(of(json!({ "end": "done" })), Ok("end_turn"));
        assert_eq!(of(json!({ "end": "aborted" })), Ok("cancelled"));
        let turns = json!({ "end": "limit", "limit": "turns" });
        assert_eq!(of(turns), Ok("max_turn_requests"));
        assert_eq!(of(json!({ "end": "done", "limit": "turns" })), Ok("max_turn_requests"));
        assert_eq!(of(json!({ "end": "done", "limit": "cost" })), Ok("end_turn"));
        let cut = |why: &str| of(json!({ "end": "incomplete", "incomplete": why }));
        assert_eq!(cut("length"), Ok("max_tokens"));
        assert_eq!(cut("content_filter"), Ok("refusal"));
        assert!(cut("empty").unwrap_err().message.contains("empty"));
        let failed = of(json!({ "end": "error", "error": "no key" })).unwrap_err();
        assert_eq!((failed.code, &*failed.message), (-32603, "no key"));
    }
}
