//! A client: it uses one session through any worker, repeats unanswered inputs, and records the
//! answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loopwright_core::agent::InputError;
use loopwright_core::event::{
    ActionResult, AgentEvent, Decision, Envelope, ExternalAction, InputEvent, Prompt, RunCause,
    RunStatus, Urgency,
};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};

use crate::fleet::Fleet;
use crate::random::Random;
use crate::worker::Sent;

/// Timeout for an answer, before the client asks another worker.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// Timeout for an event, before the client reads from another worker.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for an event that may be lost.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The record of a client.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) session: String,
    /// The acknowledged inputs.
    pub(crate) accepted: Vec<String>,
    /// The refused inputs.
    pub(crate) refused: Vec<String>,
    /// The numbered events.
    pub(crate) events: Vec<Envelope>,
    /// The number of deltas.
    pub(crate) deltas: u64,
    /// The number of event streams that it has read from.
    pub(crate) streams: u64,
    /// Violations of the contract.
    pub(crate) violations: Vec<String>,
    /// The times from steers to their receipts, and from decisions to theirs.
    pub(crate) steers: Vec<Duration>,
    pub(crate) decisions: Vec<Duration>,
}

pub(crate) struct Client {
    fleet: Arc<Fleet>,
    http: reqwest::Client,
    random: Random,
    history: History,
    stream: Option<(Response, Vec<u8>)>,
    /// `true` if it does not wait for inputs that may be lost.
    gives_up: bool,
}

impl Client {
    pub(crate) fn new(fleet: Arc<Fleet>, number: u64, random: Random) -> Self {
        let history = History { session: format!("session/{number}"), ..History::default() };
        Client { fleet, http: crate::http_client(), random, history, stream: None, gives_up: false }
    }

    /// Works until the faults are over and the last request has ended, unless it gives up waiting
    /// for that.
    pub(crate) async fn work(mut self, is_over: Arc<AtomicBool>, gives_up: bool) -> History {
        let mut round = 0;
        self.gives_up = gives_up;
        while round == 0 || !is_over.load(Ordering::Relaxed) {
            self.round(round).await;
            round += 1;
        }
        self.history
    }

    /// Sends one request, and waits for the end of its run.
    async fn round(&mut self, round: u64) {
        let turns = 2 + self.random.below(4);
        let asks = self.random.below(2) == 0;
        let aborts = !asks && self.random.below(6) == 0;
        let steers = !aborts && self.random.below(3) == 0;
        // Another request, which waits until the first is done. It denies pending calls.
        let mut sends_second = !aborts && !asks && self.random.below(4) == 0;
        let work = match asks {
            true => format!("work {turns} ask at {}", self.random.below(turns)),
            false => format!("work {turns} turns"),
        };
        let id = |what: &str| format!("{what}-{round}");
        let prompt = InputEvent::UserRequest(work.into());
        self.send(&id("request"), prompt, false).await;
        // A steer that comes too late for its run starts another one.
        let (mut has_started, mut is_done, mut is_second) = (false, false, !sends_second);
        let (mut has_steered, mut has_aborted) = (false, false);
        while !is_done {
            let Some(event) = self.next_event().await else { return };
            match &event.event {
                AgentEvent::AgentStart { cause: RunCause::UserRequest(input), .. } => {
                    has_started |= **input == id("request");
                    is_second |= **input == id("second");
                }
                _ if !has_started => {}
                AgentEvent::ToolExecutionStart { .. } if sends_second => {
                    sends_second = false;
                    let prompt = InputEvent::UserRequest("work 1 turns".into());
                    self.send(&id("second"), prompt, false).await;
                }
                AgentEvent::ToolExecutionStart { .. } if steers && !has_steered => {
                    has_steered = true;
                    let steer = Prompt::from("Faster, please.");
                    let steer = InputEvent::Steer(steer.urgency(Urgency::AfterTurn));
                    let begin = Instant::now();
                    self.send(&id("steer"), steer, true).await;
                    self.history.steers.push(begin.elapsed());
                }
                AgentEvent::ToolExecutionStart { .. } if aborts && !has_aborted => {
                    has_aborted = true;
                    let abort = loopwright_core::event::AbortRequest::new().run(event.run_id);
                    // The run may have ended.
                    let _ = self.send_any(&id("abort"), InputEvent::Abort(abort), true).await;
                }
                AgentEvent::ExternalAction(action) => self.decide(round, action).await,
                AgentEvent::AgentEnd(outcome) => match outcome.end {
                    RunStatus::AwaitingAction => {}
                    RunStatus::Done => is_done = is_second,
                    RunStatus::Aborted if has_aborted => is_done = true,
                    other => {
                        let why = format!("round {round} ended as {other:?}: {outcome:?}");
                        self.history.violations.push(why);
                        is_done = true;
                    }
                },
                _ => {}
            }
        }
    }

    /// Approves an action, and then tries to deny it, through other workers.
    async fn decide(&mut self, round: u64, action: &ExternalAction) {
        let id = format!("decision-{round}-{}", action.call);
        let result = |decision: Decision| {
            let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
            InputEvent::ExternalActionResult(result)
        };
        let begin = Instant::now();
        self.send(&id, result(Decision::Approve), true).await;
        self.history.decisions.push(begin.elapsed());
        let late = format!("late-{round}-{}", action.call);
        let denial = result(Decision::Deny("Too late.".into()));
        match self.send_any(&late, denial, true).await {
            Err(why) if matches!(why.reason(), InputError::NotPending(_)) => {}
            answer => {
                let why = format!("a second decision was answered with {answer:?}");
                self.history.violations.push(why);
            }
        }
    }

    /// Sends an input that must be accepted, under this id.
    async fn send(&mut self, id: &str, event: InputEvent, waits: bool) {
        if let Err(why) = self.send_any(id, event, waits).await {
            self.history.violations.push(format!("`{id}` was refused: {why}"));
        }
    }

    /// Sends an input until it is answered, each time through any worker.
    async fn send_any(&mut self, id: &str, event: InputEvent, waits: bool) -> Result<(), Refusal> {
        loop {
            let url = self.fleet.any_worker(&mut self.random) + "/input";
            let session = self.history.session.clone();
            let sent = Sent { session, input: event.clone().with_id(id), waits };
            let request = self.http.post(url).timeout(ANSWER_TIMEOUT).json(&sent);
            if let Ok(answer) = request.send().await {
                match answer.status() {
                    StatusCode::OK => {
                        self.history.accepted.push(id.to_owned());
                        return Ok(());
                    }
                    StatusCode::CONFLICT => {
                        if let Ok(why) = answer.json::<InputError>().await {
                            self.history.refused.push(id.to_owned());
                            return Err(Refusal(why));
                        }
                    }
                    _ => {}
                }
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Returns the next numbered event, from any worker. Changes the worker now and then.
    async fn next_event(&mut self) -> Option<Envelope> {
        let begin = Instant::now();
        loop {
            if self.gives_up && begin.elapsed() > GIVE_UP_TIMEOUT {
                return None;
            }
            if self.random.below(40) == 0 {
                self.stream = None;
            }
            let Some((response, buffer)) = &mut self.stream else {
                self.open_stream().await;
                continue;
            };
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let event: Envelope = serde_json::from_slice(&line).unwrap();
                let last = self.history.events.last().map_or(0, |event| event.seq);
                if event.seq <= last {
                    self.history.deltas += 1;
                    continue;
                }
                self.history.events.push(event.clone());
                return Some(event);
            }
            match timeout(EVENT_TIMEOUT, response.chunk()).await {
                Ok(Ok(Some(chunk))) => buffer.extend_from_slice(&chunk),
                _ => self.stream = None,
            }
        }
    }

    async fn open_stream(&mut self) {
        let after = self.history.events.last().map_or(0, |event| event.seq);
        let worker = self.fleet.any_worker(&mut self.random);
        let mut url = reqwest::Url::parse(&format!("{worker}/events")).unwrap();
        let query = [("session", self.history.session.as_str()), ("after", &after.to_string())];
        url.query_pairs_mut().extend_pairs(query);
        match timeout(ANSWER_TIMEOUT, self.http.get(url).send()).await {
            Ok(Ok(response)) if response.status().is_success() => {
                self.history.streams += 1;
                self.stream = Some((response, Vec::new()));
            }
            _ => sleep(RETRY_PAUSE).await,
        }
    }
}

/// The reason why an input was refused.
#[derive(Debug)]
pub(crate) struct Refusal(InputError);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Refusal {
    /// Returns the reason that the session gave first.
    fn reason(&self) -> &InputError {
        match &self.0 {
            InputError::AlreadyRefused { why, .. } => why,
            why => why,
        }
    }
}
