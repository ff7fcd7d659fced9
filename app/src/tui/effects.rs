//! The task that runs the effects of the state. It runs them in order, so that inputs reach the
//! session in the order in which they were sent. Each long-running effect gets its own task.

mod editor;
mod files;
mod host;
mod lists;
mod msg;
mod open;
mod preview;

use std::sync::Arc;

use loopwright_core::AgentHandle;
use loopwright_core::agent::InputError;
use loopwright_core::event::{ActionResult, InputEvent};
use loopwright_host::SessionSettings;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::editor::{Editor, editor};
use self::host::{Host, Target};
pub(crate) use self::msg::Msg;
use super::state::{Effect, Outcome, Tone};
use crate::args::ChatArgs;
use crate::config::Config;

enum Job {
    Perform(Effect),
    /// The session has moved: open it again, or attach to it.
    Reopen,
    /// Distil facts from the session, if its settings say so, and reply when that is done.
    Distil(oneshot::Sender<()>),
    /// Abort the run, delete the session if it was never used, and reply with the session's name if
    /// it can be resumed.
    Shutdown(oneshot::Sender<Option<Arc<str>>>),
}

/// A sender of effects to the task that runs them.
pub(crate) struct EffectRunner {
    jobs: mpsc::UnboundedSender<Job>,
    /// `true` once a shutdown was requested.
    closing: watch::Sender<bool>,
}

impl EffectRunner {
    /// Starts the task and opens the session that the command line names.
    pub(crate) fn start(
        args: ChatArgs,
        config: Arc<Config>,
    ) -> (Self, mpsc::UnboundedReceiver<Msg>) {
        let (job_tx, jobs) = mpsc::unbounded_channel();
        let (msg_tx, msgs) = mpsc::unbounded_channel();
        let ChatArgs { session, options, .. } = args;
        let host = Host::new(options, config, msg_tx);
        let (closing, is_closing) = watch::channel(false);
        tokio::spawn(work(host, Target::First(Box::new(session)), jobs, is_closing));
        (EffectRunner { jobs: job_tx, closing }, msgs)
    }

    /// Queues an effect.
    pub(crate) fn perform(&self, effect: Effect) {
        let _ = self.jobs.send(Job::Perform(effect));
    }

    /// Opens the session again after it has moved, or attaches to it; its current state arrives as
    /// [`Msg::Opened`].
    pub(crate) fn reopen(&self) {
        let _ = self.jobs.send(Job::Reopen);
    }

    /// Distils facts from the session, which is about to be closed, if its settings say so.
    pub(crate) async fn distil(&self) {
        let (reply_tx, reply) = oneshot::channel();
        let _ = self.jobs.send(Job::Distil(reply_tx));
        let _ = reply.await;
    }

    /// Closes the session. Returns its name if it can be resumed.
    pub(crate) async fn shutdown(&self) -> Option<Arc<str>> {
        let (reply_tx, reply) = oneshot::channel();
        let _ = self.jobs.send(Job::Shutdown(reply_tx));
        self.closing.send_replace(true);
        reply.await.ok().flatten()
    }
}

async fn work(
    mut host: Host,
    first: Target,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    mut is_closing: watch::Receiver<bool>,
) {
    unless_closing(&mut is_closing, host.open(first)).await;
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Perform(
                effect @ (Effect::SwitchModel(_)
                | Effect::SwitchThinking(_)
                | Effect::Open(_)
                | Effect::Fork(_)),
            ) => unless_closing(&mut is_closing, host.perform(effect)).await,
            Job::Perform(effect) => host.perform(effect).await,
            Job::Reopen => unless_closing(&mut is_closing, host.reopen()).await,
            Job::Distil(reply_tx) => {
                unless_closing(&mut is_closing, host.distil_at_end()).await;
                let _ = reply_tx.send(());
            }
            Job::Shutdown(reply_tx) => {
                let _ = reply_tx.send(host.shutdown().await);
                return;
            }
        }
    }
}

/// Opens a session, unless the user quits: it may wait for another process.
async fn unless_closing(is_closing: &mut watch::Receiver<bool>, open: impl Future<Output = ()>) {
    tokio::select! {
        () = open => {}
        _ = is_closing.wait_for(|is_closing| *is_closing) => {}
    }
}

impl Host {
    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::SwitchModel(_) | Effect::SwitchThinking(_) if self.is_attached() => {
                let why = "Another process has this conversation open: change it there, or here \
                           when that process has ended.";
                self.send_outcome(Outcome::Notice(Tone::Error, why.into()));
            }
            Effect::SwitchModel(name) => {
                let change = |settings: &mut SessionSettings| {
                    settings.model = Some(name.clone());
                    settings.base_url = None;
                };
                self.open(Target::Same(self.with(change))).await;
            }
            Effect::SwitchThinking(level) => {
                let options = self.with(|settings| settings.thinking = Some(level));
                self.open(Target::Same(options)).await;
            }
            Effect::Open(None) => self.open(Target::New).await,
            Effect::Open(Some(name)) => self.open(Target::Named(name)).await,
            Effect::Fork(at) => self.fork(at).await,
            Effect::Export(file) => self.export(file).await,
            Effect::List(source) => self.list(source),
            Effect::Tools => self.tools(),
            Effect::Memory(command) => self.memory(command),
            Effect::Preview(action) => self.preview(*action),
            Effect::Allow(name) => self.allow(&name),
            Effect::Slash { name, arguments } => self.slash(&name, &arguments),
            input => {
                let Some(handle) = self.handle() else {
                    return self.send_closed();
                };
                if let Some(outcome) = send_input(handle, input, self.msgs.clone()).await {
                    self.send_outcome(outcome);
                }
            }
        }
    }
}

/// Sends an input to the session. Returns the outcome for the state, if any. The outcome of a
/// compaction is sent to `msgs` later.
pub(crate) async fn send_input(
    handle: AgentHandle,
    effect: Effect,
    msgs: mpsc::UnboundedSender<Msg>,
) -> Option<Outcome> {
    let undelivered = |text: String, ends: bool| {
        move |why: InputError| Outcome::Undelivered { text, why: why.to_string(), ends }
    };
    match effect {
        Effect::Prompt(text) => {
            let sent = handle.send(InputEvent::UserRequest(text.as_str().into())).await;
            sent.err().map(undelivered(text, true))
        }
        Effect::Steer(text) => {
            handle.steer(text.as_str()).await.err().map(undelivered(text, false))
        }
        Effect::FollowUp(text) => {
            handle.follow_up(text.as_str()).await.err().map(undelivered(text, false))
        }
        Effect::Continue => handle
            .send(InputEvent::Continue(None))
            .await
            .err()
            .map(undelivered(String::new(), true)),
        Effect::TakeBack => match handle.clear_queues().await {
            Ok(texts) => Some(Outcome::TakenBack(texts)),
            Err(why) => Some(undelivered(String::new(), false)(why)),
        },
        Effect::Abort(run) => {
            let aborted = match run {
                Some(run) => handle.abort_run(run).await,
                None => handle.abort().await,
            };
            // A run that has ended needs no abort.
            let failed = aborted.err().filter(|why| !matches!(why, InputError::NothingToAbort(_)));
            failed.map(undelivered(String::new(), false))
        }
        Effect::Decide { call, digest, decision, change } => {
            let result = ActionResult::new(call.clone(), digest, decision);
            let result = result.source("terminal").change(change);
            let event = InputEvent::ExternalActionResult(result);
            let why = handle.send(event).await.err()?.to_string();
            Some(Outcome::Refused { call, why })
        }
        Effect::Compact(instructions) => {
            tokio::spawn(async move {
                let text = match handle.compact(instructions.as_deref()).await {
                    Ok(done) if done.is_empty() => "There is nothing to summarise yet.".to_owned(),
                    Ok(_) => return,
                    Err(why) => format!("{why}."),
                };
                let _ = msgs.send(Msg::Outcome(Outcome::Notice(Tone::Loud, text)));
            });
            None
        }
        _ => None,
    }
}
