//! `loopwright actions`, `approve` and `deny`: pending actions, resolved from another process.

use std::io;
use std::sync::Arc;

use loopwright_core::event::{ActionResult, Decision, ExternalAction, InputEvent};
use loopwright_core::log::{PendingAction, PendingFilter, SessionInfo};
use serde_json::Value;

use crate::args::{ActionsArgs, ApproveArgs, DecisionArgs, DenyArgs};
use crate::config::Config;
use crate::error::StartError;
use crate::exit_code::EMPTY;
use crate::interrupt::Interrupt;
use crate::output;
use crate::session::{Allowed, RunOutput, Session, build, existing, open_store, run_unattended};

/// Lists the pending actions, and returns the exit code.
pub(crate) async fn actions(args: &ActionsArgs, config: &Config) -> Result<u8, StartError> {
    let store = open_store(config.store(&args.store))?;
    let mut filter = PendingFilter::new();
    if let Some(session) = &args.session {
        existing(&*store, session).await?;
        filter = filter.session(session.as_str());
    }
    if let Some(tool) = &args.tool {
        filter = filter.tool(tool.as_str());
    }
    let open = store.pending(&filter).await?;
    let print = |action: &PendingAction| match args.json {
        true => output::json_line(action),
        false => print_action(action),
    };
    output::after_write(open.iter().try_for_each(print))?;
    Ok(if open.is_empty() { EMPTY } else { 0 })
}

fn print_action(pending: &PendingAction) -> io::Result<()> {
    let PendingAction { session, since, action, .. } = pending;
    let age = output::age(*since);
    let digest = output::digest(action);
    let call = output::call(action);
    output::text(&format!("{session}  {}  {age}  {digest}  {call}", action.call))
}

/// Approves a call, continues its session, and returns the exit code.
pub(crate) async fn approve(args: &ApproveArgs, config: &Config) -> Result<u8, StartError> {
    let decision = match &args.args {
        None => Decision::Approve,
        Some(json) => {
            let arguments: Value = serde_json::from_str(json)
                .map_err(|why| StartError(format!("The value of --args is not JSON: {why}.")))?;
            Decision::ApproveWith(arguments)
        }
    };
    decide(&args.decision, config, decision).await
}

/// Denies a call, continues its session, and returns the exit code.
pub(crate) async fn deny(args: &DenyArgs, config: &Config) -> Result<u8, StartError> {
    let reason = args.reason.clone().unwrap_or_else(|| "the user said no".into());
    decide(&args.decision, config, Decision::Deny(reason)).await
}

/// Resolves the call, and continues its session with the options that it was started with.
async fn decide(
    args: &DecisionArgs,
    config: &Config,
    decision: Decision,
) -> Result<u8, StartError> {
    let store = open_store(config.store(&args.store))?;
    let info = existing(&*store, &args.session).await?;
    let action = pending_action(&info, &args.call)?;
    check_digest(args, &action)?;
    let session = Session::existing(store, info);
    let verbosity = args.verbosity.verbosity();
    let settings = session.settings(&args.options, config, verbosity)?;
    let built = build(&settings, &Allowed::default(), verbosity).await?;
    session.announce(&built, verbosity);
    let (handle, events) = built.agent.run(session.context(&built).await?).await?;
    // Before, while the session may wait for another process, Ctrl-C ends this one at once.
    let interrupt = Interrupt::listen()?;
    let mut result = ActionResult::new(action.call, action.digest, decision);
    if let Some(by) = &args.by {
        result = result.by(Arc::<str>::from(by.as_str()));
    }
    let sent = handle.send(InputEvent::ExternalActionResult(result)).await;
    sent.map_err(|why| StartError(format!("The decision was not accepted: {why}.")))?;
    let display = RunOutput { json: args.json, verbosity, streams: true };
    Ok(run_unattended(handle, events, interrupt, display, Some(&args.session)).await)
}

fn pending_action(info: &SessionInfo, call: &str) -> Result<ExternalAction, StartError> {
    let mut pending = info.pending.iter().map(|pending| &pending.action);
    if let Some(action) = pending.clone().find(|action| *action.call == *call) {
        return Ok(action.clone());
    }
    let others: Vec<&str> = pending.by_ref().map(|action| &*action.call).collect();
    let others = match others.is_empty() {
        true => "no call does".into(),
        false => format!("these do: {}", others.join(", ")),
    };
    Err(StartError(format!("No call `{call}` of session `{}` waits; {others}.", info.id)))
}

/// Checks that the call is still the one whose digest the user gave.
fn check_digest(args: &DecisionArgs, action: &ExternalAction) -> Result<(), StartError> {
    let Some(digest) = &args.digest else {
        return Ok(());
    };
    let is_long_enough = digest.starts_with(output::digest(action));
    if is_long_enough && action.digest.starts_with(digest.as_str()) {
        return Ok(());
    }
    Err(StartError(format!(
        "The digest {digest} does not match the pending call: {}. List it with `loopwright actions \
         {}`.",
        output::call(action),
        args.session
    )))
}
