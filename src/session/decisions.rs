//! The decisions on pending actions: which are accepted.

use crate::error::InputError;
use crate::log::calls::Phase;
use crate::log::input::{ActionResult, Decision, Provided};
use crate::session::config::{Config, WhileAwaiting};
use crate::session::journal::Journal;
use crate::tool::Toolbox;
use crate::tool::question::Question;

/// Returns the decision as it will be carried out.
pub(crate) fn check(
    journal: &Journal,
    config: &Config,
    tools: &Toolbox,
    result: &ActionResult,
) -> Result<Decision, InputError> {
    let call = journal.fold.call(&result.call);
    let Some(Phase::Awaiting(action)) = call.map(|c| &c.phase) else {
        return Err(InputError::NotPending(result.call.clone()));
    };
    // The message that replaces the decision came first.
    if config.while_awaiting == WhileAwaiting::Supersede && journal.fold.run_supersedes() {
        return Err(InputError::NotPending(result.call.clone()));
    }
    if action.digest != result.digest {
        return Err(InputError::DigestDiffers(result.call.clone()));
    }
    let refuse = |why: &str| Err(InputError::BadDecision(why.into()));
    if let Some(question) = action.question() {
        return check_answer(&question, &result.decision);
    }
    if result.decision.runs_the_tool() && tools.entry(&action.name).is_err() {
        return Err(InputError::NoTool(action.name.clone()));
    }
    match (&result.decision, &action.request) {
        (Decision::ApproveWith(edited), None) => {
            let valid = tools.validate_value(&action.name, edited.clone());
            valid.map(Decision::ApproveWith).map_err(InputError::BadArguments)
        }
        (Decision::ApproveWith(_), Some(_)) => refuse(
            "the tool is suspended and has its arguments already: \
             provide the input that it asks for, or deny the call",
        ),
        (Decision::Provide(Provided::Input(_)), None) => refuse(
            "the call waits for an approval, not for input: \
             approve it, deny it, or provide its result",
        ),
        (decision, _) => Ok(decision.clone()),
    }
}

/// Returns the decision on a question as it will be carried out.
fn check_answer(question: &Question, decision: &Decision) -> Result<Decision, InputError> {
    let refuse = |why: String| Err(InputError::BadDecision(why));
    match decision {
        Decision::Provide(Provided::Input(answer)) => match question.check(answer.clone()) {
            Ok(answer) => Ok(Decision::Provide(Provided::Input(answer))),
            Err(why) => refuse(format!("the answer does not fit the question: {why}")),
        },
        Decision::Deny(_) => Ok(decision.clone()),
        _ => refuse("it is a question: provide the answer as its input, or deny it".into()),
    }
}
