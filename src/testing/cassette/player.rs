//! [`Player`]: the replay of a cassette.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::diff::diff;
use super::error::CassetteError;
use super::file::{self, AgentKey, CallLine, Line, Listing, RequestLine};
use super::request::{RecordedRequest, pretty};
use super::session_name::{is_random, split};
use crate::model::{ChatRequest, ModelEvent, ModelInfo};
use crate::testing::excerpt::excerpt;
use crate::tool::{ToolContext, ToolSpec};

/// Maximum number of missing requests and calls in an error.
const MAX_LISTED: usize = 10;

/// The replay of a cassette, which answers requests and calls from its file.
///
/// A request or a call is found by its session, its content and, among equal ones, its number. So
/// the order of concurrent requests and calls does not matter.
pub(super) struct Player {
    path: PathBuf,
    sessions: BTreeMap<String, Session>,
    /// The sessions that do not belong to sub-agents, in the order of the file.
    roots: Vec<String>,
    /// The recorded root of each root of the replay.
    bound: HashMap<String, String>,
    models: HashMap<(AgentKey, Option<String>), ModelInfo>,
    listings: HashMap<(AgentKey, String), VecDeque<RecordedTools>>,
    /// The first divergence, at which the replay ends.
    divergence: Option<CassetteError>,
}

/// The tools that a source listed, or its error.
pub(super) type RecordedTools = Result<Vec<Arc<ToolSpec>>, String>;

/// The recorded reply to a request.
pub(super) struct Reply {
    pub(super) events: Vec<ModelEvent>,
    /// `true` if the reply was dropped after these events.
    pub(super) cut_off: bool,
}

/// The requests and calls of a session in the cassette.
#[derive(Default)]
struct Session {
    requests: Vec<Recorded<RecordedRequest, Reply>>,
    calls: Vec<Recorded<Call, CallLine>>,
    /// Number of requests in the replay so far; `called` counts the calls.
    sent: usize,
    called: usize,
}

/// A recorded request or call with its outcome, which is `None` after its replay.
struct Recorded<Q, A> {
    number: usize,
    what: Q,
    outcome: Option<A>,
}

/// The identity of a call.
#[derive(PartialEq)]
struct Call {
    tool: String,
    arguments: Value,
    decided: bool,
}

impl Call {
    fn lines(&self) -> Vec<String> {
        let decided = self.decided.then(|| "after a decision".to_owned());
        let mut lines = vec![format!("tool: {}", self.tool)];
        lines.extend(decided);
        lines.push("arguments:".to_owned());
        lines.extend(pretty(&self.arguments).lines().map(|line| format!("  {line}")));
        lines
    }
}

impl Player {
    pub(super) fn open(path: &Path) -> Result<Self, CassetteError> {
        let mut player = Player {
            path: path.to_owned(),
            sessions: BTreeMap::new(),
            roots: Vec::new(),
            bound: HashMap::new(),
            models: HashMap::new(),
            listings: HashMap::new(),
            divergence: None,
        };
        let mut last: HashMap<String, RecordedRequest> = HashMap::new();
        for (number, line) in file::read(path)? {
            player.take(line, &mut last).ok_or_else(|| {
                let why = "that continues one that is missing; record it again";
                CassetteError::file(path, format!("has a line {number} {why}"))
            })?;
        }
        for session in player.sessions.values_mut() {
            session.requests.sort_by_key(|request| request.number);
            session.calls.sort_by_key(|call| call.number);
        }
        Ok(player)
    }

    /// Adds a line of the file. `last` has the last request of each session. Returns `None` if the
    /// line does not continue them.
    fn take(&mut self, line: Line, last: &mut HashMap<String, RecordedRequest>) -> Option<()> {
        match line {
            Line::Model(line) => {
                self.models.insert((line.of, line.name), line.info);
            }
            Line::Tools(line) => {
                let listings = self.listings.entry((line.of, line.prefix)).or_default();
                listings.push_back(match line.listing {
                    Listing::Tools(tools) => {
                        Ok(tools.into_iter().map(|spec| Arc::new(spec.spec())).collect())
                    }
                    Listing::Failed(why) => Err(why),
                    Listing::Unchanged => listings.back()?.clone(),
                });
            }
            Line::Request(RequestLine { session, number, request, events, cut_off }) => {
                let what = last.get(&session).cloned().unwrap_or_default().changed(request)?;
                last.insert(session.clone(), what.clone());
                let outcome = Some(Reply { events, cut_off });
                self.session_mut(session).requests.push(Recorded { number, what, outcome });
            }
            Line::Call(line) => {
                let CallLine { number, tool, arguments, decided, .. } = &line;
                let (tool, arguments) = (tool.clone(), arguments.clone());
                let what = Call { tool, arguments, decided: *decided };
                let recorded = Recorded { number: *number, what, outcome: Some(line.clone()) };
                self.session_mut(line.session).calls.push(recorded);
            }
            Line::End => {}
        }
        Some(())
    }

    fn session_mut(&mut self, session: String) -> &mut Session {
        let root = split(&session).0;
        if !self.roots.iter().any(|known| known == root) {
            self.roots.push(root.to_owned());
            // Sessions with random ids are named in the order of their starts.
            let number = |root: &String| root.strip_prefix('#').and_then(|n| n.parse::<u64>().ok());
            self.roots.sort_by_key(number);
        }
        self.sessions.entry(session).or_default()
    }

    /// Returns the recorded properties of the agent's model of this name.
    pub(super) fn model(&self, of: &AgentKey, name: Option<&str>) -> Option<ModelInfo> {
        self.models.get(&(of.clone(), name.map(str::to_owned))).cloned()
    }

    /// Returns the next listing of a source of tools, or its last listing after that.
    pub(super) fn listing(&mut self, of: &AgentKey, prefix: &str) -> Option<RecordedTools> {
        let listings = self.listings.get_mut(&(of.clone(), prefix.to_owned()))?;
        let is_last = listings.len() == 1;
        if is_last { listings.front().cloned() } else { listings.pop_front() }
    }

    /// Returns the reply to a request to the agent's model of this name.
    pub(super) fn reply(
        &mut self,
        of: &AgentKey,
        model: Option<&str>,
        request: &ChatRequest,
    ) -> Result<Reply, CassetteError> {
        let what = RecordedRequest::new(model, request);
        let has = |session: &Session| session.requests.iter().any(|known| known.what == what);
        let name = self.start(&request.session, has)?;
        let session = self.sessions.entry(name.clone()).or_default();
        session.sent += 1;
        let is_next =
            |known: &&mut Recorded<_, Reply>| known.outcome.is_some() && known.what == what;
        let next = session.requests.iter_mut().find(is_next);
        if let Some(reply) = next.and_then(|known| known.outcome.take()) {
            return Ok(reply);
        }
        let likeness = |known: &RecordedRequest| known.likeness(&what);
        let closest = closest(&session.requests, likeness, RecordedRequest::lines);
        let number = session.sent;
        Err(self.diverge("request", number, &description(of, &name), closest, what.lines()))
    }

    /// Returns the outcome of a call.
    pub(super) fn call(
        &mut self,
        of: &AgentKey,
        tool: &str,
        arguments: &Value,
        cx: &ToolContext,
    ) -> Result<CallLine, CassetteError> {
        let (tool, arguments) = (tool.to_owned(), arguments.clone());
        let what = Call { tool, arguments, decided: cx.decision().is_some() };
        let has = |session: &Session| session.calls.iter().any(|known| known.what == what);
        let name = self.start(cx.session_id(), has)?;
        let session = self.sessions.entry(name.clone()).or_default();
        session.called += 1;
        let mut equal: Vec<_> = session
            .calls
            .iter_mut()
            .filter(|known| known.outcome.is_some() && known.what == what)
            .collect();
        let has_id = |known: &&mut Recorded<_, CallLine>| {
            known.outcome.as_ref().is_some_and(|line| line.id == *cx.call_id())
        };
        // Equal calls that run concurrently start in any order.
        let at = equal.iter().position(has_id).unwrap_or_default();
        if let Some(line) = equal.get_mut(at).and_then(|known| known.outcome.take()) {
            return Ok(line);
        }
        let likeness = |known: &Call| {
            usize::from(known.tool == what.tool) + usize::from(known.decided == what.decided)
        };
        let closest = closest(&session.calls, likeness, Call::lines);
        let number = session.called;
        Err(self.diverge("call", number, &description(of, &name), closest, what.lines()))
    }

    /// Returns the name in the cassette of the session with this id. A root without its own name in
    /// the cassette is the first free root that `has` the first request or call of the session.
    fn start(&mut self, id: &str, has: impl Fn(&Session) -> bool) -> Result<String, CassetteError> {
        if let Some(divergence) = &self.divergence {
            return Err(divergence.clone());
        }
        let (root, rest) = split(id);
        if let Some(name) = self.bound.get(root) {
            return Ok(format!("{name}{rest}"));
        }
        let free: Vec<&String> = self
            .roots
            .iter()
            .filter(|name| !self.bound.values().any(|bound| bound == *name))
            .collect();
        let same = free.iter().find(|name| **name == root && !is_random(root));
        let has = |name: &&&String| self.sessions.get(&format!("{name}{rest}")).is_some_and(&has);
        let name = same.or_else(|| free.iter().find(has)).or(free.first());
        let name = name.map_or(root, |name| name).to_owned();
        let found = format!("{name}{rest}");
        self.bound.insert(root.to_owned(), name);
        Ok(found)
    }

    /// Records that the agent did something that the cassette lacks.
    fn diverge(
        &mut self,
        noun: &str,
        number: usize,
        session: &str,
        closest: Option<Closest>,
        lines: Vec<String>,
    ) -> CassetteError {
        let path = self.path.display();
        let what = format!("{noun} {number} of {session}");
        let (start, old) = match closest {
            None => (
                format!(
                    "{what} is not in the cassette {path}, which has no {noun} of this session"
                ),
                Vec::new(),
            ),
            Some(Closest { number: other, is_replayed: true, lines: old }) => {
                let how = if old == lines { "equals" } else { "differs from" };
                let text = format!(
                    "{what} is not in the cassette {path}: all of this session have been replayed. \
                     It {how} {noun} {other}"
                );
                (text, old)
            }
            Some(Closest { number: other, is_replayed: false, lines: old }) => {
                (format!("{what} differs from {noun} {other} in the cassette {path}"), old)
            }
        };
        let advice = "If the change is intended, delete the file and record it again.";
        let text = match diff(&old, &lines) {
            diff if diff.is_empty() => format!("{start}. {advice}"),
            diff => {
                let legend = "Lines with `-` are in the cassette, lines with `+` are new.";
                format!("{start}:\n{diff}\n{legend} {advice}")
            }
        };
        let error = CassetteError::diverged(text);
        self.divergence = Some(error.clone());
        error
    }

    /// Returns the number of requests and calls that were not replayed.
    pub(super) fn remaining(&self) -> usize {
        let count = |session: &Session| {
            let requests = session.requests.iter().filter(|known| known.outcome.is_some());
            let calls = session.calls.iter().filter(|known| known.outcome.is_some());
            requests.count() + calls.count()
        };
        self.sessions.values().map(count).sum()
    }

    /// Returns the divergence, or an error if some requests or calls were not replayed.
    pub(super) fn finish(&self) -> Result<(), CassetteError> {
        if let Some(divergence) = &self.divergence {
            return Err(divergence.clone());
        }
        let remaining = self.remaining();
        if remaining == 0 {
            return Ok(());
        }
        let mut text = format!(
            "the agent did not do all that the cassette {} has; these were not replayed:",
            self.path.display()
        );
        let lines = self.sessions.iter().flat_map(|(name, session)| session.remaining(name));
        lines.take(MAX_LISTED).for_each(|line| text.extend(["\n- ", &*line]));
        if remaining > MAX_LISTED {
            text.push_str(&format!("\n… and {} more", remaining - MAX_LISTED));
        }
        Err(CassetteError::not_replayed(text))
    }
}

impl Session {
    /// Describes each request and call that was not replayed.
    fn remaining(&self, name: &str) -> impl Iterator<Item = String> {
        let requests = self.requests.iter().filter(|known| known.outcome.is_some());
        let requests = requests.map(move |Recorded { number, what, .. }| {
            let last = excerpt(&what.last_message(), 0);
            format!("request {number} of session `{name}`: {last}")
        });
        let calls = self.calls.iter().filter(|known| known.outcome.is_some());
        let calls =
            calls.map(move |Recorded { number, what: Call { tool, arguments, .. }, .. }| {
                let arguments = excerpt(&arguments.to_string(), 0);
                format!("call {number} of session `{name}`: {tool} {arguments}")
            });
        requests.chain(calls)
    }
}

/// The recorded request or call that is most similar to another.
struct Closest {
    number: usize,
    is_replayed: bool,
    lines: Vec<String>,
}

/// Returns the most similar request or call, preferring those that were not replayed.
fn closest<Q, A>(
    recorded: &[Recorded<Q, A>],
    likeness: impl Fn(&Q) -> usize,
    lines: impl Fn(&Q) -> Vec<String>,
) -> Option<Closest> {
    let rank = |known: &&Recorded<Q, A>| (known.outcome.is_some(), likeness(&known.what));
    // The first of equal candidates.
    let known = recorded.iter().rev().max_by_key(rank)?;
    Some(Closest {
        number: known.number,
        is_replayed: known.outcome.is_none(),
        lines: lines(&known.what),
    })
}

/// Describes a session; for a sub-agent, the text includes its name.
fn description(of: &AgentKey, session: &str) -> String {
    match &*of.sub_agent {
        "" => format!("session `{session}`"),
        name => format!("the sub-agent `{name}` in session `{session}`"),
    }
}
