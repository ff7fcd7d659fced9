//! `loopwright actions`, `approve`, `deny` and `answer`: pending actions, resolved from another
//! process.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use loopwright_core::event::{ActionResult, Decision, ExternalAction, InputEvent, Provided};
use loopwright_core::log::{PendingAction, PendingQuery, SessionInfo};
use loopwright_core::tool::Question;
use loopwright_core::{Environment, SessionStore, SystemEnvironment, json};
use serde_json::Value;

use crate::answer::read_answer;
use crate::args::{ActionsArgs, AnswerArgs, ApproveArgs, DecisionArgs, DenyArgs};
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::exit_code::{ABORTED, AWAITING_ACTION, EMPTY};
use crate::interrupt::Interrupt;
use crate::output;
use crate::session::{RunOutput, Sending, Session, existing, run_unattended};
use crate::stdin;
use crate::terms;
use crate::wording;

/// Lists the pending actions, and returns the exit code.
pub(crate) async fn actions(args: &ActionsArgs, config: &Config) -> Result<u8, StartError> {
    let store = config.open_store(&args.store)?;
    let mut query = PendingQuery::all();
    if let Some(session) = &args.session {
        existing(&*store, session).await?.require_root()?;
        query = query.session(session.as_str());
    }
    if let Some(tool) = &args.tool {
        query = query.tool(tool.as_str());
    }
    let open = store.pending(&query).await?.actions;
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
    output::text(&format!("{session}  {}  {age}  {digest}  {call}", action.call))?;
    let terms = terms::lines(action, SystemEnvironment.now());
    terms.iter().try_for_each(|line| output::text(&format!("    {line}")))
}

/// Approves a call, continues its session, and returns the exit code.
pub(crate) async fn approve(args: &ApproveArgs, config: &Config) -> Result<u8, StartError> {
    let decision = match &args.args {
        None => Decision::Approve,
        Some(json) => {
            let arguments = json::read(json)
                .map_err(|why| StartError(format!("The value of --args {why}.")))?;
            Decision::ApproveWith(arguments)
        }
    };
    let pending = Pending::find(&args.decision, config).await?;
    if pending.action.question().is_some() {
        return Err(pending.error("asks a question", "answer"));
    }
    pending.decide(&args.decision, config, decision).await
}

/// Denies a call, continues its session, and returns the exit code.
pub(crate) async fn deny(args: &DenyArgs, config: &Config) -> Result<u8, StartError> {
    let reason = args.reason.clone().unwrap_or_else(|| "the user said no".into());
    let pending = Pending::find(&args.decision, config).await?;
    pending.decide(&args.decision, config, Decision::Deny(reason)).await
}

/// Answers a question or provides the input of a suspended call, continues its session, and returns
/// the exit code.
pub(crate) async fn answer(args: &AnswerArgs, config: &Config) -> Result<u8, StartError> {
    let pending = Pending::find(&args.decision, config).await?;
    if pending.action.request.is_none() {
        return Err(pending.error("needs your approval, not an answer", "approve"));
    }
    let question = pending.action.question();
    let given = args.answer.as_deref();
    let Some(text) = answer_text(given, &pending.action, question.as_ref()).await? else {
        return Ok(ABORTED);
    };
    let input = match &question {
        Some(question) => read_answer(question, &text).map_err(|why| {
            StartError(format!("The answer does not fit the question: {}", wording::ended(&why)))
        })?,
        None => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    };
    let decision = Decision::Provide(Provided::Input(input));
    pending.decide(&args.decision, config, decision).await
}

/// Returns the given answer, else reads it from standard input. `None` means that the user pressed
/// Ctrl-C.
async fn answer_text(
    given: Option<&str>,
    action: &ExternalAction,
    question: Option<&Question>,
) -> Result<Option<String>, StartError> {
    let is_secret = question.is_some_and(Question::is_secret);
    if let Some(given) = given.filter(|given| *given != "-") {
        return match is_secret {
            false => Ok(Some(given.to_owned())),
            true => Err(StartError(
                "The question asks for a secret, which other processes see on a command line: \
                 leave it out, and give it on standard input."
                    .into(),
            )),
        };
    }
    if let (Some(question), true) = (question, io::stdin().is_terminal()) {
        output::report_question(action, question);
    }
    match is_secret {
        true => stdin::read_secret("answer").await,
        false => stdin::read("answer").map(Some),
    }
}

/// A pending call, and the store of its session.
struct Pending {
    store: Arc<dyn SessionStore>,
    info: SessionInfo,
    action: ExternalAction,
}

impl Pending {
    /// Finds the call, and checks its digest against the one the user gave.
    async fn find(args: &DecisionArgs, config: &Config) -> Result<Self, StartError> {
        let store = config.open_store(&args.store)?;
        let info = existing(&*store, &args.session).await?;
        info.require_root()?;
        let action = pending_action(&info, &args.call)?;
        check_digest(args, &action)?;
        Ok(Pending { store, info, action })
    }

    /// Returns the error for a call that `command` resolves instead.
    fn error(&self, what: &str, command: &str) -> StartError {
        let (session, call) = (output::quoted(&self.info.id), &self.action.call);
        let program = started_as();
        StartError(format!(
            "The call `{call}` {what}: `{program} {command} {session} {call}` resolves it, \
             `{program} deny {session} {call}` declines."
        ))
    }

    /// Checks that the call allows the decision, and that an approval names its author if several
    /// people must approve.
    fn check_allowed(&self, args: &DecisionArgs, decision: &Decision) -> Result<(), StartError> {
        let (call, terms) = (&self.action.call, &self.action.terms);
        let quorum = terms.quorum;
        if !terms.allows(decision.kind()) {
            let why = match (decision, quorum > 1) {
                (Decision::ApproveWith(_), true) => {
                    format!("{quorum} people must approve its arguments as they are")
                }
                (Decision::ApproveWith(_), false) => "its arguments cannot be edited".into(),
                _ => format!("`{}` is not allowed for it", decision.name()),
            };
            return Err(StartError(format!("The call `{call}` is unchanged, because {why}.")));
        }
        if quorum > 1 && args.by.is_none() && *decision == Decision::Approve {
            return Err(StartError(format!(
                "{quorum} people must approve the call `{call}`: say with --by NAME who you are."
            )));
        }
        Ok(())
    }

    /// Resolves the call, and continues its session with the options that it was started with.
    async fn decide(
        self,
        args: &DecisionArgs,
        config: &Config,
        decision: Decision,
    ) -> Result<u8, StartError> {
        self.check_allowed(args, &decision)?;
        let Pending { store, info, action } = self;
        let session = Session::existing(store, info);
        let verbosity = args.verbosity.verbosity();
        let call = action.call.clone();
        let result = ActionResult::new(action.call, action.digest, decision);
        let mut result = result.source("command");
        if let Some(by) = &args.by {
            result = result.by(Arc::<str>::from(by.as_str()));
        }
        let event = InputEvent::ExternalActionResult(result);
        let display = RunOutput { json: args.json, verbosity, streams: true };
        let sending = Sending::new(&session, event, "The decision");
        let build = async || session.build(&args.options, config, verbosity).await;
        let (handle, events) = sending.start(verbosity, build).await?;
        // Until here Ctrl-C ends the process at once, as the session may wait for another process.
        let interrupt = Interrupt::listen()?;
        if !handle.is_attached() {
            sending.send(&handle).await.map_err(|why| sending.refused(&why))?;
        }
        let pending = session.pending(&handle).await;
        if let Some(action) = pending.iter().find(|action| action.call == call)
            && let (Some(approvals), false) =
                (terms::approvals(action), action.approvals.is_empty())
        {
            output::info(&format!("The call waits: {approvals}."));
            return Ok(AWAITING_ACTION);
        }
        Ok(run_unattended(handle, events, interrupt, display, &session).await)
    }
}

fn pending_action(info: &SessionInfo, call: &str) -> Result<ExternalAction, StartError> {
    let mut pending = info.pending.iter().map(|pending| &*pending.action);
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

/// Checks the digest of the call against the one the user gave.
fn check_digest(args: &DecisionArgs, action: &ExternalAction) -> Result<(), StartError> {
    let Some(digest) = &args.digest else {
        return Ok(());
    };
    let is_long_enough = digest.starts_with(output::digest(action));
    if is_long_enough && action.digest.starts_with(digest.as_str()) {
        return Ok(());
    }
    Err(StartError(format!(
        "The digest {digest} does not match the pending call: {}. List it with `{} actions {}`.",
        output::call(action),
        started_as(),
        args.session
    )))
}
