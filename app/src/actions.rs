//! `loopwright actions`, `approve` and `deny`: what waits for an answer, and the answer, from
//! another process.

use std::io;
use std::sync::Arc;

use loopwright_core::event::{ActionResult, Decision, InputEvent};
use loopwright_core::log::{PendingAction, PendingFilter};
use serde_json::Value;

use crate::agent::{self, Allowed, StartError};
use crate::args::{ActionsArgs, AnswerArgs, ApproveArgs, DenyArgs, Options};
use crate::interrupt::Interrupt;
use crate::print;
use crate::run::{Told, show, tell_open};
use crate::store::{self, Session};

/// Nothing waits.
const NONE: u8 = 1;

/// Lists what waits, and gives the exit code.
pub(crate) async fn actions(args: &ActionsArgs) -> Result<u8, StartError> {
    let store = store::open(&args.at)?;
    let mut filter = PendingFilter::new();
    if let Some(session) = &args.session {
        store::known(&*store, session).await?;
        filter = filter.session(session.as_str());
    }
    if let Some(tool) = &args.tool {
        filter = filter.tool(tool.as_str());
    }
    let open = store.pending(&filter).await?;
    let lines =
        || {
            open.iter().try_for_each(|action| {
                if args.json { print::json_line(action) } else { list(action) }
            })
        };
    print::printed(lines())?;
    Ok(if open.is_empty() { NONE } else { 0 })
}

fn list(pending: &PendingAction) -> io::Result<()> {
    let PendingAction { session, since, action, .. } = pending;
    let digest = print::digest(action);
    let what = print::call(action);
    print::text(&format!("{session}  {}  {}  {digest}  {what}", action.call, print::age(*since)))
}

/// Lets a call run.
pub(crate) async fn approve(args: &ApproveArgs) -> Result<u8, StartError> {
    let decision = match &args.args {
        None => Decision::Approve,
        Some(json) => {
            let edited: Value = serde_json::from_str(json).map_err(|why| {
                StartError(format!("The arguments that --args gives are not JSON: {why}."))
            })?;
            Decision::ApproveWith(edited)
        }
    };
    answer(&args.answer, decision).await
}

/// Refuses a call.
pub(crate) async fn deny(args: &DenyArgs) -> Result<u8, StartError> {
    let reason = args.reason.clone().unwrap_or_else(|| "the user said no".into());
    answer(&args.answer, Decision::Deny(reason)).await
}

/// Answers the call and goes on with its session, as it was started.
async fn answer(args: &AnswerArgs, decision: Decision) -> Result<u8, StartError> {
    let store = store::open(&args.at)?;
    let info = store::known(&*store, &args.session).await?;
    let open = info.pending.iter().map(|pending| &pending.action);
    let Some(action) = open.clone().find(|action| *action.call == *args.call).cloned() else {
        let others: Vec<&str> = open.map(|action| &*action.call).collect();
        let there_are = if others.is_empty() {
            "nothing does".into()
        } else {
            format!("these do: {}", others.join(", "))
        };
        return Err(StartError(format!(
            "No call `{}` of session `{}` waits; {there_are}.",
            args.call, args.session
        )));
    };
    if let Some(shown) = &args.digest
        && (!shown.starts_with(print::digest(&action))
            || !action.digest.starts_with(shown.as_str()))
    {
        return Err(StartError(format!(
            "The digest {shown} is not that of what would run: {}. Look at it again with `loopwright actions {}`.",
            print::call(&action),
            args.session
        )));
    }
    let session = Session::known(store, info);
    let told = Told::of(args.json, args.speech);
    let options = session.options(&Options { quiet: !told.notes(), ..args.options.clone() })?;
    let built = agent::build(&options, &Allowed::default()).await?;
    let interrupt = Interrupt::listen()?;
    let (handle, events) = built.agent.run(session.context(&built).await?).await?;
    let mut result = ActionResult::new(action.call, action.digest, decision);
    if let Some(by) = &args.by {
        result = result.by(Arc::<str>::from(by.as_str()));
    }
    let taken = handle.send(InputEvent::ExternalActionResult(result)).await;
    taken.map_err(|why| StartError(format!("The answer was not taken: {why}.")))?;
    let shown = show(handle, events, interrupt, told).await?;
    if told.calls() && !shown.open.is_empty() {
        tell_open(&shown.open, Some(&args.session));
    }
    Ok(shown.code)
}
