//! [`DailyBudget`]: what the sessions of each principal may use per day.
//!
//! What they have used is read from their logs, so that it survives a restart and includes what
//! other processes with the store have used. A log is read once, and then only its new entries.
//! What has no log, deleted sessions and requests to `/api/agent-chat`, is in the files of a
//! directory; without one it counts only in this process, until it ends.

mod use_file;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::agent::{Budget, Environment, Principal, SystemEnvironment};
use loopwright_core::log::{MemoryError, SessionInfo, SessionQuery};
use tokio::sync::{Mutex, OwnedMutexGuard};

use self::use_file::{DAY, StoredUse, Use, UseFiles, max};
use crate::error::{ApiError, ErrorKind};

/// How many sessions are listed at a time.
const PAGE_SESSIONS: usize = 100;

/// Checks what the sessions of a principal have used today, in UTC.
pub(crate) struct DailyBudget {
    budget: Budget,
    store: Arc<dyn SessionStore>,
    files: Option<UseFiles>,
    used: Mutex<HashMap<Principal, Arc<Mutex<Day>>>>,
}

/// What the sessions of a principal have used on a day.
#[derive(Default)]
struct Day {
    /// The start of the day, in milliseconds since 1970.
    start: u64,
    sessions: HashMap<Arc<str>, SessionUse>,
    /// What requests without a session have used, unless a file has it.
    requests: Use,
}

/// What one session has used.
struct SessionUse {
    /// The session as far as its log was read.
    info: SessionInfo,
    /// What it had used when the day began, or what a fork shares with its parent.
    before: Use,
}

impl DailyBudget {
    pub(crate) fn new(
        budget: Budget,
        store: Arc<dyn SessionStore>,
        directory: Option<PathBuf>,
    ) -> Self {
        let files = directory.map(UseFiles::new);
        DailyBudget { budget, store, files, used: Mutex::default() }
    }

    /// Checks that the sessions of this principal may use more today. A run counts on the day on
    /// which it began.
    pub(crate) async fn check(&self, principal: &Principal) -> Result<(), ApiError> {
        let Budget { tokens, cost, .. } = self.budget;
        let Some(mut day) = self.day(principal).await else { return Ok(()) };
        day.update(&*self.store, principal).await?;
        let stored = self.stored(principal, day.start).await?;
        let (used_tokens, used_cost) = day.used(&stored);
        let why = match (tokens, cost) {
            (Some(tokens), _) if used_tokens >= tokens => {
                format!("{used_tokens} of {tokens} tokens")
            }
            (_, Some(cost)) if used_cost >= cost => format!("${used_cost:.2} of ${cost:.2}"),
            _ => return Ok(()),
        };
        let left = Duration::from_millis((day.start + DAY).saturating_sub(SystemEnvironment.now()));
        let minutes = left.as_secs() / 60 + 1;
        Err(ApiError::new(
            ErrorKind::TooMany,
            format!(
                "The daily budget of `{principal}` is used up: {why}. The next day begins at \
                 00:00 UTC, in {minutes} minutes."
            ),
        ))
    }

    /// Reads what a session has used, which is about to be deleted, so that it still counts.
    pub(crate) async fn keep(&self, session: &SessionInfo) {
        let Some(owner) = &session.owner else { return };
        let Some(mut day) = self.day(owner).await else { return };
        if session.changed < day.start {
            return;
        }
        if let Err(error) = day.read(&*self.store, session).await {
            tracing::warn!(session = &*session.id, %error, "what it has used does not count");
            return;
        }
        let used = day.sessions.get(&session.id).map(SessionUse::used).unwrap_or_default();
        if used != (0, 0.0) {
            self.write(owner, Some(session.id.clone()), used, day.start).await;
        }
    }

    /// Adds what a request without a session has used.
    pub(crate) async fn add(&self, principal: &Principal, tokens: u64, cost: f64) {
        let Some(mut day) = self.day(principal).await else { return };
        if !self.write(principal, None, (tokens, cost), day.start).await {
            day.requests = (day.requests.0 + tokens, day.requests.1 + cost);
        }
    }

    /// Writes what was used to the file of the day. Returns whether it is there.
    async fn write(
        &self,
        principal: &Principal,
        session: Option<Arc<str>>,
        used: Use,
        start: u64,
    ) -> bool {
        let Some(files) = &self.files else { return false };
        let written = files.add(principal, session, used, start).await;
        if let Err(why) = &written {
            let directory = files.directory().display();
            tracing::error!(
                %directory, %why,
                "the use of a day cannot be written: it counts until this process ends"
            );
        }
        written.is_ok()
    }

    /// Returns what the file of a day says about a principal.
    async fn stored(&self, principal: &Principal, start: u64) -> Result<StoredUse, ApiError> {
        let Some(files) = &self.files else { return Ok(StoredUse::default()) };
        files.of(principal, start).await.map_err(|why| {
            let directory = files.directory().display();
            tracing::error!(%directory, %why, "the use of a day cannot be read");
            let why = "What was used today cannot be read; the server's log says why.";
            ApiError::new(ErrorKind::Internal, why)
        })
    }

    /// Returns the use of a principal today, or `None` if it is not bounded.
    async fn day(&self, principal: &Principal) -> Option<OwnedMutexGuard<Day>> {
        if self.budget.tokens.is_none() && self.budget.cost.is_none() {
            return None;
        }
        let day = self.used.lock().await.entry(principal.clone()).or_default().clone();
        let mut day = day.lock_owned().await;
        let start = SystemEnvironment.now() / DAY * DAY;
        if day.start != start {
            *day = Day { start, ..Day::default() };
        }
        Some(day)
    }
}

impl Day {
    /// Reads what the logs of this principal's sessions have had since the last time.
    async fn update(
        &mut self,
        store: &dyn SessionStore,
        owner: &Principal,
    ) -> Result<(), MemoryError> {
        let first = SessionQuery::new(PAGE_SESSIONS).owner(owner.clone()).brief();
        let mut next = Some(first.clone());
        while let Some(query) = next.take() {
            let page = store.sessions_page(&query).await?;
            for listed in &page.sessions {
                if listed.changed < self.start {
                    return Ok(()); // and so are all that follow
                }
                self.read(store, listed).await?;
            }
            next = page.next.map(|cursor| first.clone().after(cursor));
        }
        Ok(())
    }

    async fn read(
        &mut self,
        store: &dyn SessionStore,
        listed: &SessionInfo,
    ) -> Result<(), MemoryError> {
        let session = self.sessions.entry(listed.id.clone()).or_insert_with(|| SessionUse {
            info: SessionInfo::new(listed.id.clone()),
            before: (0, 0.0),
        });
        if session.info.entries >= listed.entries {
            return Ok(());
        }
        // A store that copies the log of a fork does not say what is shared: then it counts twice.
        let shared = listed.parent.as_ref().map_or(0, |(_, entries)| *entries);
        for entry in store.read(&listed.id, session.info.entries).await? {
            session.info.apply(&entry);
            if session.info.changed < self.start || session.info.entries <= shared {
                session.before = used(&session.info);
            }
        }
        Ok(())
    }

    /// Returns the tokens and the cost of all sessions and requests. What the file says about a
    /// session may be here as well.
    fn used(&self, stored: &StoredUse) -> Use {
        let logged = self.sessions.iter().map(|(id, session)| {
            let kept = stored.sessions.get(id).copied().unwrap_or_default();
            max(session.used(), kept)
        });
        let kept = stored.sessions.iter().filter(|(id, _)| !self.sessions.contains_key(*id));
        let all = logged.chain(kept.map(|(_, used)| *used)).chain([stored.requests]);
        all.fold(self.requests, |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl SessionUse {
    /// Returns what it has used today.
    fn used(&self) -> Use {
        let (tokens, cost) = used(&self.info);
        (tokens - self.before.0, cost - self.before.1)
    }
}

fn used(session: &SessionInfo) -> Use {
    (session.usage.total(), session.cost)
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::LogEntry;
    use loopwright_core::message::{MessageId, RunId, Usage};
    use loopwright_memory::Sqlite;
    use serde_json::json;

    use super::*;

    fn run(number: u64, time: u64, tokens: u64) -> Vec<LogEntry> {
        let cause = serde_json::from_value(json!("steer")).unwrap();
        let mut usage = Usage::default();
        usage.output = tokens;
        let message = MessageId(number);
        vec![
            LogEntry::RunStarted { run: RunId(number), cause, time, trace: None },
            LogEntry::Charged { message, usage, cost: Some(tokens as f64 / 100.0), ended: true },
        ]
    }

    /// Writes a session of Ann with these entries.
    async fn write(store: &Sqlite, session: &str, mut entries: Vec<LogEntry>) {
        let owner = Some(Principal::new("ann"));
        entries.insert(0, LogEntry::Opened { epoch: 1, time: 1, parent: None, owner });
        let memory = store.open(session).await.unwrap();
        memory.append(0, entries.into()).await.unwrap();
    }

    async fn refusal(budget: &DailyBudget) -> String {
        let refused = budget.check(&Principal::new("ann")).await;
        refused.map_or_else(|why| why.message().to_owned(), |()| String::new())
    }

    /// C230: What the sessions of a principal have used since midnight counts, once, and new
    /// entries are added; earlier days, shares of forks and other principals do not count.
    #[tokio::test]
    async fn the_use_of_a_day_is_read_from_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("sessions.db")).unwrap();
        let now = SystemEnvironment.now();
        let budget = |budget| DailyBudget::new(budget, Arc::new(store.clone()), None);
        let (tokens, cost) =
            (budget(Budget::default().tokens(60)), budget(Budget::default().cost(0.5)));
        write(&store, "old", run(1, now - 2 * DAY, 1_000)).await;
        write(&store, "both", [run(1, now - 2 * DAY, 1_000), run(2, now, 30)].concat()).await;
        store.fork("both", None, "fork").await.unwrap();
        for budget in [&tokens, &cost] {
            assert_eq!(refusal(budget).await, "");
        }
        let memory = store.open("both").await.unwrap();
        memory.append(5, run(3, now, 20).into()).await.unwrap();
        assert_eq!(refusal(&tokens).await, "");
        assert!(refusal(&cost).await.contains("`ann` is used up: $0.50 of $0.50"));
        memory.append(7, run(4, now, 10).into()).await.unwrap();
        assert!(refusal(&tokens).await.contains("60 of 60 tokens"));
        assert!(tokens.check(&Principal::new("bob")).await.is_ok());
    }
}
