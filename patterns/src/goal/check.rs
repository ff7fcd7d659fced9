//! The check of a goal.

use loopwright_core::message::{ResultStatus, UserMessage};
use loopwright_core::session::{Call, Profile};
use loopwright_core::{Ask, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Deserialize;

/// The check that decides whether the goal is reached.
#[derive(Clone)]
pub(crate) enum Check {
    Call(Call),
    /// A judge with this profile, and the goal.
    Judge(String, Profile),
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Verdict {
    /// `true` if the goal is reached.
    pub(crate) reached: bool,
    /// The parts that are missing.
    pub(crate) why: String,
}

impl Check {
    /// Returns the number of requests to a model that it takes.
    pub(crate) fn requests(&self) -> u32 {
        match self {
            Check::Call(_) => 0,
            Check::Judge(..) => 1,
        }
    }

    /// Makes the check, once for each answer.
    pub(crate) async fn make(
        &self,
        step: &mut StepContext<'_>,
        key: &str,
    ) -> Result<Verdict, StepError> {
        match self {
            Check::Call(call) => {
                let answer = step.last_reply().and_then(|reply| Some(reply.message()?.id));
                let key = format!("{key}-{}", answer.unwrap_or_default());
                let call = call.clone().key(key).hidden();
                let result = step.call(call).await?.ok_or(StepEnd::AwaitingAction)?;
                let exit = result.details.as_ref().and_then(|details| details.get("exit_code"));
                let succeeds = exit.is_none_or(|code| *code == 0);
                let reached = result.status == ResultStatus::Ok && succeeds;
                Ok(Verdict { reached, why: result.text() })
            }
            Check::Judge(goal, judge) => {
                let text = UserMessage::from(format!("Is this goal reached? {goal}"));
                step.ask_for(Ask::detached().profile(judge).key(key).also(text)).await
            }
        }
    }
}
