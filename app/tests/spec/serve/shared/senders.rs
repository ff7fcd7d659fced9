//! The threads that send inputs to both servers.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use loopwright_core::log::{LogEntry, SessionInfo};
use loopwright_test_support::http::{Connection, Response};
use serde_json::{Value, json};

/// Time limit per input, for all inputs together.
const INPUT_TIMEOUT: Duration = Duration::from_secs(3);

/// The pause before a retry.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of attempts for an input that is refused because too many wait. Each attempt has
/// another id.
const MAX_ATTEMPTS: usize = 500;

/// Pseudo-random numbers from a seed (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The answer of both servers.
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) is_accepted: bool,
    pub(super) is_decision: bool,
}

/// The answer of one server.
#[derive(Debug, PartialEq)]
enum Receipt {
    Accepted,
    /// Too many inputs wait.
    Full,
    /// Nothing to abort or to decide.
    TooLate,
}

/// The state that the senders share.
pub(super) struct Shared {
    session: String,
    addresses: Mutex<[String; 2]>,
    next: AtomicU64,
    inputs: u64,
    has_ended: AtomicBool,
    deadline: Instant,
}

pub(super) struct EndOnDrop<'s>(&'s Shared);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn new(session: &str, addresses: [String; 2], inputs: u64) -> Self {
        Shared {
            session: session.into(),
            addresses: Mutex::new(addresses),
            next: AtomicU64::new(0),
            inputs,
            has_ended: AtomicBool::new(false),
            deadline: Instant::now() + INPUT_TIMEOUT * (inputs as u32 + 20),
        }
    }

    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn set_address(&self, server: usize, address: &str) {
        self.addresses.lock().unwrap()[server] = address.into();
    }

    /// Returns a guard that, when dropped, reports that all inputs have been sent, or that the test
    /// has failed.
    pub(super) fn end_on_drop(&self) -> EndOnDrop<'_> {
        EndOnDrop(self)
    }

    /// Sends inputs of random kinds until none are left. Inputs that are refused because too many
    /// wait are sent again.
    pub(super) fn send_all(&self, random: &mut Random, answers: &Sender<Answer>) {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= self.inputs {
                return;
            }
            let (path, text) = match random.below(8) {
                0 => ("abort", String::new()),
                1 | 2 => ("steer", format!("message {n}")),
                3 | 4 => ("follow-up", format!("message {n}")),
                5 | 6 => ("prompt", format!("message {n}")),
                _ => ("prompt", format!("Create file-{n}.txt with \"{n}\"")),
            };
            for attempt in 1.. {
                assert!(attempt <= MAX_ATTEMPTS, "{text} was refused {MAX_ATTEMPTS} times");
                let id = format!("{path}-{n}-{attempt}");
                let body = match path {
                    "abort" => json!({ "id": id }),
                    _ => json!({ "message": text, "id": id }),
                };
                let path = format!("/api/sessions/{}/{path}", self.session);
                let receipt = self.send_to_both(random, &path, &body);
                let is_accepted = receipt == Receipt::Accepted;
                if receipt == Receipt::Full {
                    thread::park_timeout(PAUSE);
                    continue;
                }
                answers.send(Answer { id, is_accepted, is_decision: false }).unwrap();
                break;
            }
        }
    }

    /// Sends a message that makes the model call a tool.
    pub(super) fn ask_for_a_call(&self, random: &mut Random, number: u64) {
        let text = format!("Create last-{number}.txt with \"{number}\"");
        let body = json!({ "message": text, "id": format!("last-{number}") });
        self.send_to_both(random, &format!("/api/sessions/{}/prompt", self.session), &body);
    }

    /// Decides about the calls that wait, until all inputs have been sent and no call waits.
    pub(super) fn decide_all(&self, random: &mut Random, answers: &Sender<Answer>) {
        let mut decided = BTreeSet::new();
        loop {
            let had_ended = self.has_ended.load(Ordering::Relaxed);
            let path = format!("/api/sessions/{}/actions", self.session);
            let list = self.answered(random.below(2), &|address| {
                let list = Connection::try_get(address, &path)?;
                Some(list).filter(|response| response.status == 200)
            });
            let list: Value = serde_json::from_str(&list.body).unwrap();
            let waiting = list["actions"].as_array().unwrap();
            if had_ended && waiting.is_empty() {
                return;
            }
            for action in waiting {
                let call = action["call"].as_str().unwrap();
                if !decided.insert(call.to_owned()) {
                    continue;
                }
                let id = format!("decision-{call}");
                let decision = ["approve", "deny"][random.below(2) as usize];
                let body = json!({ "digest": action["digest"], "decision": decision, "id": id });
                let receipt = self.send_to_both(random, &format!("{path}/{call}"), &body);
                let is_accepted = receipt == Receipt::Accepted;
                answers.send(Answer { id, is_accepted, is_decision: true }).unwrap();
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// Sends an input to one server, and then, after its answer, to the other one, which must
    /// answer the same.
    fn send_to_both(&self, random: &mut Random, path: &str, body: &Value) -> Receipt {
        let first = random.below(2);
        let [one, other] = [first, 1 - first].map(|server| self.send(server, path, body));
        assert_eq!(one, other, "{body}");
        one
    }

    /// Sends an input to a server until it has an answer.
    fn send(&self, server: u64, path: &str, body: &Value) -> Receipt {
        loop {
            let response = self.answered(server, &|address| {
                Connection::try_post(address, path, &body.to_string())
            });
            match response.status {
                200 | 202 => return Receipt::Accepted,
                503 | 504 => {}
                _ if response.body.contains("wait already") => return Receipt::Full,
                409 | 404 => return Receipt::TooLate,
                _ => panic!("{body}: {response:?}"),
            }
        }
    }

    /// Asks a server, which may be restarted meanwhile, until it answers.
    fn answered(&self, server: u64, ask: &dyn Fn(&str) -> Option<Response>) -> Response {
        loop {
            assert!(Instant::now() < self.deadline, "there was no answer in time");
            let address = self.addresses.lock().unwrap()[server as usize].clone();
            match ask(&address) {
                Some(response) => return response,
                None => thread::park_timeout(PAUSE),
            }
        }
    }

    /// Reads the log when all posted inputs have been handled.
    pub(super) fn when_all_are_handled(
        &self,
        read: impl Fn() -> (Vec<LogEntry>, SessionInfo),
    ) -> (Vec<LogEntry>, SessionInfo) {
        loop {
            let (log, info) = read();
            if info.unread == 0 || Instant::now() > self.deadline {
                return (log, info);
            }
            thread::park_timeout(PAUSE);
        }
    }
}
