//! Decisions on pending actions: the checks of a decision, and the defaults at deadlines.

use std::sync::Arc;

use crate::error::{InputError, MemoryError};
use crate::event::action::ExternalAction;
use crate::event::input::{ActionResult, Decision, Provided, SYSTEM};
use crate::log::entry::LogEntry;
use crate::message::InputId;
use crate::session::config::{Config, WhileAwaiting};
use crate::session::journal::Journal;
use crate::tool::question::Question;
use crate::tool::{DecisionKind, DefaultDecision, Toolbox};

/// The reason for denying a call at its deadline.
const NO_DECISION: &str = "nobody decided before the deadline";

/// Returns the log entry of a decision, as it will be carried out. `received` is in milliseconds
/// since 1970.
pub(crate) fn check(
    journal: &Journal,
    config: &Config,
    tools: &Toolbox,
    result: ActionResult,
    input: InputId,
    received: u64,
) -> Result<LogEntry, InputError> {
    let action = journal.state.pending().find(|action| action.call == result.call);
    let Some(action) = action.filter(|_| !is_over(journal, config)) else {
        return Err(InputError::NotPending(result.call));
    };
    if action.digest != result.digest {
        return Err(InputError::DigestDiffers(result.call));
    }
    // A sub-agent gets decisions that its root has already checked.
    let has_terms = journal.is_of_root();
    if has_terms {
        check_terms(action, &result, received)?;
    }
    let decision = Arc::new(check_for(config, tools, &action.path, action, &result.decision)?);
    let time = config.environment.now();
    let ActionResult { call, by, source, change, .. } = result;
    let (name, digest) = (action.name.clone(), action.digest.clone());
    let approvals = action.approvals.len() as u64 + 1;
    let needs_more = has_terms
        && decision.kind() == DecisionKind::Approve
        && approvals < action.terms.quorum.into();
    Ok(match by {
        Some(by) if needs_more => {
            LogEntry::Approved { input, call, name, digest, by, source, change, time }
        }
        by => {
            let (name, digest) = (Some(name), Some(digest));
            LogEntry::Decided { input, call, name, digest, decision, by, source, change, time }
        }
    })
}

/// Returns whether pending actions can no longer be resolved: they are aborted, or superseded by an
/// earlier message.
fn is_over(journal: &Journal, config: &Config) -> bool {
    let supersedes = config.while_awaiting == WhileAwaiting::Supersede;
    journal.state.abort_requested || supersedes && journal.state.run_supersedes()
}

/// Checks a decision against the terms of the action.
fn check_terms(
    action: &ExternalAction,
    result: &ActionResult,
    received: u64,
) -> Result<(), InputError> {
    let terms = &action.terms;
    let refuse = |why: String| Err(InputError::BadDecision(why));
    if terms.is_overdue(received) {
        return Err(InputError::DeadlinePassed(action.call.clone()));
    }
    if result.by.as_deref() == Some(SYSTEM) {
        return refuse(format!(
            "`{SYSTEM}` is the name of the session itself, which decides at deadlines: name \
             another principal"
        ));
    }
    let kind = result.decision.kind();
    let quorum = terms.quorum;
    if !terms.allows(kind) {
        let allowed = [DecisionKind::Approve, DecisionKind::ApproveWith, DecisionKind::Provide];
        let allowed = allowed.into_iter().filter(|kind| terms.allows(*kind));
        let allowed: Vec<&str> = allowed.chain([DecisionKind::Deny]).map(|k| k.name()).collect();
        let why = match quorum {
            0 | 1 => String::new(),
            _ => format!(", since {quorum} principals must approve it as it is"),
        };
        let (kind, allowed) = (kind.name(), allowed.join(", "));
        return refuse(format!("`{kind}` is not allowed for this call{why}: use {allowed}"));
    }
    if kind != DecisionKind::Approve || quorum <= 1 {
        return Ok(());
    }
    let Some(by) = &result.by else {
        return refuse(format!(
            "{quorum} different principals must approve this call: the approval must name its \
             principal"
        ));
    };
    match action.approvals.iter().any(|approval| approval.by.as_ref() == Some(by)) {
        true => refuse(format!(
            "`{by}` has approved this call already: {quorum} different principals must"
        )),
        false => Ok(()),
    }
}

/// Takes the default decision on each action whose deadline is at or before `now`. Returns whether
/// there was one.
pub(crate) async fn take_defaults(
    journal: &mut Journal,
    config: &Config,
    tools: &Toolbox,
    now: u64,
) -> Result<bool, MemoryError> {
    journal.flush().await?; // ids of inputs are made from what is in the log
    let mut is_any = false;
    loop {
        let state = &journal.state;
        let action = state.pending().find(|action| action.terms.is_overdue(now));
        let Some(action) = action.filter(|_| !is_over(journal, config)) else {
            return Ok(is_any);
        };
        tracing::info!(
            session = &**journal.session(),
            call = &*action.call,
            "its deadline has passed"
        );
        let entry = LogEntry::Decided {
            input: state.make_input_id(),
            call: action.call.clone(),
            name: Some(action.name.clone()),
            digest: Some(action.digest.clone()),
            decision: Arc::new(default_decision(config, tools, action)),
            by: Some(SYSTEM.into()),
            source: None,
            change: None,
            time: config.environment.now(),
        };
        journal.commit(entry).await?;
        is_any = true;
    }
}

/// Returns the default decision. A call that cannot be approved, for example because its tool is
/// gone, is denied.
fn default_decision(config: &Config, tools: &Toolbox, action: &ExternalAction) -> Decision {
    let deny = |why: &str| Decision::Deny(why.into());
    match action.terms.default_decision {
        DefaultDecision::Deny => deny(NO_DECISION),
        DefaultDecision::Approve => {
            let checked = check_for(config, tools, &action.path, action, &Decision::Approve);
            checked.unwrap_or_else(|why| deny(&format!("{NO_DECISION}, and {why}")))
        }
    }
}

/// Checks the decision on an action of the agent with this configuration, or of the sub-agent on
/// this path.
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
