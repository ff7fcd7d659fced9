//! The decisions on pending actions: which are accepted.

use std::sync::Arc;

use crate::error::InputError;
use crate::log::action::ExternalAction;
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
    let action = journal.fold.pending().find(|action| action.call == result.call);
    let Some(action) = action.filter(|_| !journal.fold.abort_requested) else {
        return Err(InputError::NotPending(result.call.clone()));
    };
    // The message that replaces the decision came first.
    if config.while_awaiting == WhileAwaiting::Supersede && journal.fold.run_supersedes() {
        return Err(InputError::NotPending(result.call.clone()));
    }
    if action.digest != result.digest {
        return Err(InputError::DigestDiffers(result.call.clone()));
    }
    check_for(config, tools, &action.path, action, &result.decision)
}

/// Checks the decision on an action of the agent with this configuration, or of one of its
/// sub-agents on this path.
pub(crate) fn check_for(
    config: &Config,
    tools: &Toolbox,
    path: &[Arc<str>],
    action: &ExternalAction,
    decision: &Decision,
) -> Result<Decision, InputError> {
    if let [agent, path @ ..] = path {
        return match config.children.get(agent) {
            Some(agent) => agent.check(path, action, decision),
            None => Err(InputError::BadDecision(format!(
                "the agent has no sub-agent `{agent}`, which alone can carry it out: open the \
                 session with an agent that has it"
            ))),
        };
    }
    if let Some(question) = action.question() {
        return check_answer(&question, decision);
    }
    let refuse = |why: &str| Err(InputError::BadDecision(why.into()));
    if decision.runs_the_tool() && tools.entry(&action.name).is_err() {
        return Err(InputError::NoTool(action.name.clone()));
    }
    match (decision, &action.request) {
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
