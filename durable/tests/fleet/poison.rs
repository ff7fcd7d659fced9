//! Sessions that kill each worker that does their work, and the person who decides about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loopwright_core::agent::AgentBuilder;
use loopwright_core::event::{AbortRequest, Input, InputEvent, OwnerNote};
use loopwright_core::log::{LogEntry, MemoryError, PostedInput};
use loopwright_core::message::{MessageKind, RunId};
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::Script;
use loopwright_core::tool::{Approval, Effect, ToolContext, tool_with};
use loopwright_core::{SessionStore, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, LEASE};
use crate::random::Random;
use crate::records::{Record, Records};
use crate::worker::Sent;

/// The kinds of killers: a call that ends its process, a call that exhausts its memory, an input.
pub(crate) const KINDS: [&str; 3] = ["abort", "memory", "pill"];
/// The memory that is allocated at a time, in bytes. It is never used.
const BLOCK: usize = 256 << 20;
/// Timeout for a session to be held. It usually takes ten seconds, and took more than a minute on a
/// busy machine, so only a session that is never held exceeds the timeout.
const HELD_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of owners that a session may kill between two decisions of a person.
const MAX_KILLED: usize = 2;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Returns whether the entry is an input that kills the process that takes it.
pub(crate) fn is_pill(entry: &LogEntry) -> bool {
    matches!(entry, LogEntry::Queued { message, .. } if message.text() == "pill")
}

/// The record of a worker that is about to be killed by this session.
pub(crate) fn record(session: &str) -> Record {
    let (session, call) = (session.to_owned(), "poison".to_owned());
    Record::Effect { session, call, worker: std::process::id() }
}

/// Returns a call of the tool that the user names.
pub(crate) fn reply(request: &ChatRequest) -> Option<Script> {
    let of_user = |body: &MessageKind| matches!(body, MessageKind::User(_));
    let last = request.messages.iter().rfind(|message| of_user(&message.body))?.text();
    let tool = KINDS.into_iter().find(|kind| *kind == last)?;
    Some(Script::calls([("poison", tool, json!({}))]))
}

/// Adds the tools that kill their process. Each may be called again.
pub(crate) fn with_tools(mut agent: AgentBuilder, records: Arc<Records>) -> AgentBuilder {
    for name in &KINDS[..2] {
        let exhausts = *name == "memory";
        let call = move |records: Arc<Records>, _: Nothing, cx: ToolContext| async move {
            if exhausts {
                records.add(&record(cx.session_id()));
                loop {
                    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
                }
            }
            kill(&records, cx.session_id())
        };
        let tool = tool_with(records.clone(), name, "Kills.", call);
        agent = agent.tool(tool.effect(Effect::ReadOnly).approval(Approval::Never));
    }
    agent
}

/// Kills this process instead of returning a result.
fn kill(records: &Records, session: &str) -> Result<String, ToolError> {
    records.kill(session)
}

impl Fleet {
    /// Lets a session kill the workers that do its work until it is held, and decides: every second
    /// session is continued once, and all are aborted.
    pub(crate) async fn poison(&self, number: usize, random: &mut Random) {
        let session = format!("poison/{number}");
        let kind = KINDS[number % KINDS.len()];
        let id = |what: &str| format!("{what}-{number}");
        let prompt = InputEvent::UserRequest("work 0 turns".into()).with_id(id("first"));
        self.send_until_taken(&session, prompt, random).await;
        self.until(&session, |info| info.due.is_none() && info.run.is_none()).await;
        let poison = PostedInput::new(id("poison"), InputEvent::UserRequest(kind.into()));
        self.post(&session, poison.unwrap()).await;
        self.until_held(&session, 1).await;
        let is_continued = number / KINDS.len() % 2 == 1;
        if is_continued {
            let go = PostedInput::new(id("continue"), InputEvent::Continue(None));
            self.post(&session, go.unwrap()).await;
            self.until(&session, |info| info.held.is_none()).await;
            self.until_held(&session, 2).await;
        }
        let info = self.store.session(&session).await.unwrap();
        let run = info.run.unwrap_or(RunId(1));
        let stop = AbortRequest::new().run(run);
        let stop = PostedInput::new(id("abort"), InputEvent::Abort(stop)).unwrap();
        self.post(&session, stop).await;
        self.until(&session, |info| info.held.is_none() && info.unread == 0).await;
        self.until(&session, |info| info.due.is_none() && info.run.is_none()).await;
        // The sessions of the killed workers are taken over.
        sleep(LEASE * 2).await;
    }

    /// Waits until a session is held, and checks the number of workers that it has killed, given
    /// the number of decisions so far.
    async fn until_held(&self, session: &str, decisions: usize) {
        self.until(session, |info| info.held.is_some()).await;
        let killed = Records::read(&self.records)
            .into_iter()
            .filter(|record| matches!(record, Record::Effect { session: of, .. } if of == session));
        let log = self.store.read(session, 0).await.unwrap();
        // An owner that has lived for longer than a second is not counted.
        let slow =
            log.iter().filter(|entry| matches!(entry, LogEntry::Owner { note: OwnerNote::Left }));
        let (killed, slow) = (killed.count(), slow.count());
        assert!(killed <= decisions * MAX_KILLED + slow, "{session} killed {killed} workers");
        assert!(killed >= decisions, "{session} killed {killed} workers");
    }

    async fn until(
        &self,
        session: &str,
        is_so: impl Fn(&loopwright_core::log::SessionInfo) -> bool,
    ) {
        let begin = Instant::now();
        loop {
            let info = self.store.session(session).await;
            if info.as_ref().is_ok_and(&is_so) {
                return;
            }
            assert!(begin.elapsed() < HELD_TIMEOUT, "{info:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Posts an input for the next worker that sweeps.
    async fn post(&self, session: &str, input: PostedInput) {
        while let Err(error) = self.store.post(session, &input).await {
            assert!(!matches!(error, MemoryError::NoSession(_)), "{error}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends an input through any worker, until one answers.
    async fn send_until_taken(&self, session: &str, input: Input, random: &mut Random) {
        let http = crate::http_client();
        let sent = Sent { session: session.to_owned(), input, waits: true };
        loop {
            let url = self.any_worker(random) + "/input";
            let answer = http.post(url).timeout(LEASE * 3).json(&sent).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Continues held sessions of clients whose owners happened to be lost twice.
    pub(crate) async fn continue_held(self: Arc<Self>, sessions: u64, continued: Arc<AtomicU64>) {
        loop {
            for number in 0..sessions {
                let session = format!("session/{number}");
                let Ok(info) = self.store.session(&session).await else { continue };
                if info.held.is_some() && info.unread == info.held.map_or(0, |held| held.unread) {
                    let id = format!("person-{}", continued.fetch_add(1, Ordering::Relaxed));
                    let go = PostedInput::new(id, InputEvent::Continue(None)).unwrap();
                    let _ = self.store.post(&session, &go).await; // it is looked at again
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}
