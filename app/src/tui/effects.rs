//! Does what the state wants done. One task does it in order, so that what is said is heard in the
//! order in which it was said; what takes long has a task of its own.

mod editor;
mod files;
mod lists;
mod open;
mod preview;

use std::sync::Arc;

use loopwright_core::agent::InputError;
use loopwright_core::event::InputEvent;
use loopwright_core::{AgentHandle, EventStream};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::editor::{Editor, editor};
use self::open::{Host, Target};
use super::state::{Effect, Opened, Told, Tone};
use crate::args::{ChatArgs, Options};

/// What comes back.
pub(crate) enum News {
    /// A session is open, and these are its events.
    Opened(Box<Opened>, EventStream),
    /// What came of an effect.
    Told(Told),
}

enum Job {
    Do(Effect),
    /// The reader of the events was too slow: it is to have them from here on.
    Join,
    /// Leave: nothing goes on any more, and what was never used is not kept. Tells the session's
    /// name, if it is kept.
    Leave(oneshot::Sender<Option<Arc<str>>>),
}

/// To whom effects are given.
pub(crate) struct Hands(mpsc::UnboundedSender<Job>);

impl Hands {
    /// Begins with the session that the command line names.
    pub(crate) fn start(args: ChatArgs) -> (Self, mpsc::UnboundedReceiver<News>) {
        let ((to, jobs), (news, heard)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let ChatArgs { which, options, .. } = args;
        tokio::spawn(work(Host::new(options, news), Target::First(Box::new(which)), jobs));
        (Hands(to), heard)
    }

    /// Has this done.
    pub(crate) fn perform(&self, effect: Effect) {
        let _ = self.0.send(Job::Do(effect));
    }

    /// Joins the session again: [`News::Opened`] tells what it is now.
    pub(crate) fn join(&self) {
        let _ = self.0.send(Job::Join);
    }

    /// Leaves the session. Gives its name, if it is kept.
    pub(crate) async fn leave(&self) -> Option<Arc<str>> {
        let (tell, told) = oneshot::channel();
        let _ = self.0.send(Job::Leave(tell));
        told.await.ok().flatten()
    }
}

async fn work(mut host: Host, first: Target, mut jobs: mpsc::UnboundedReceiver<Job>) {
    host.open(first).await;
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Do(effect) => host.perform(effect).await,
            Job::Join => host.join().await,
            Job::Leave(tell) => {
                let _ = tell.send(host.leave().await);
                return;
            }
        }
    }
}

impl Host {
    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::SwitchModel(name) => {
                let change = |options: &mut Options| {
                    (options.model, options.base_url) = (Some(name.clone()), None);
                };
                self.open(Target::Same(self.with(change))).await;
            }
            Effect::SwitchThinking(level) => {
                let options = self.with(|options| options.thinking = Some(level.into()));
                self.open(Target::Same(options)).await;
            }
            Effect::Open(None) => self.open(Target::New).await,
            Effect::Open(Some(name)) => self.open(Target::Named(name)).await,
            Effect::Fork(at) => self.fork(at).await,
            Effect::Export(file) => self.export(file).await,
            Effect::List(source) => self.list(source),
            Effect::Tools => self.tools(),
            Effect::Preview(action) => self.preview(*action),
            Effect::Allow(name) => self.allow(&name),
            said => {
                let Some(handle) = self.handle() else {
                    return self.tell_closed();
                };
                if matches!(
                    said,
                    Effect::Prompt(_) | Effect::Steer(_) | Effect::FollowUp(_) | Effect::Continue
                ) {
                    self.spoken();
                }
                if let Some(told) = say(handle, said, self.news()).await {
                    self.tell(told);
                }
            }
        }
    }
}

/// Says it to the session. What comes back is told.
pub(crate) async fn say(
    handle: AgentHandle,
    effect: Effect,
    news: mpsc::UnboundedSender<News>,
) -> Option<Told> {
    let undelivered = |text: String, ends: bool| {
        move |why: InputError| Told::Undelivered { text, why: why.to_string(), ends }
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
            Ok(texts) => Some(Told::TakenBack(texts)),
            Err(why) => Some(undelivered(String::new(), false)(why)),
        },
        Effect::Abort => handle.abort().await.err().map(undelivered(String::new(), false)),
        Effect::Decide { call, digest, decision } => {
            let why = handle.resolve(call.clone(), digest, decision).await.err()?.to_string();
            Some(Told::Refused { call, why })
        }
        Effect::Compact(instructions) => {
            tokio::spawn(async move {
                let told = match handle.compact(instructions.as_deref()).await {
                    Ok(done) if done.is_empty() => "There is nothing to summarise yet.".to_owned(),
                    Ok(_) => return,
                    Err(why) => format!("{why}."),
                };
                let _ = news.send(News::Told(Told::Notice(Tone::Loud, told)));
            });
            None
        }
        _ => None,
    }
}
