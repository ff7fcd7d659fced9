//! [`DailyBudget`]: a daily limit on the usage of each principal's sessions.
//!
//! The account is derived from the logs of the sessions. It survives a restart and includes the
//! usage of other processes with the same store. A log is read once, then only its new entries.
//! Until the log contains a model request, the request holds a permit of its principal for its
//! input and its expected output.
//!
//! Usage without a log is kept in files of a directory: deleted sessions and requests to
//! `/api/agent-chat`. Without a directory it counts only in this process, until it ends.

mod day;
mod permits;
mod use_file;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::limits::{Budget, LimitReached};
use loopwright_core::log::{Estimate, MemoryError, SessionInfo};
use loopwright_core::session::{BudgetPermit, SharedBudget};
use loopwright_core::{Environment, Memory, Principal, SessionStore, StepError, SystemEnvironment};
use tokio::sync::{Mutex, OwnedMutexGuard};

use self::day::Day;
use self::permits::Permits;
use self::use_file::{DAY, StoredUse, Use, UseFiles, add};
use crate::error::{ApiError, ErrorKind};

/// The limit on the usage of each principal's sessions per day, in UTC.
pub(crate) struct DailyBudget {
    budget: Budget,
    store: Arc<dyn SessionStore>,
    files: Option<UseFiles>,
    accounts: Mutex<HashMap<Principal, Account>>,
}

/// The usage of a principal, and the reservations of its requests in progress.
#[derive(Clone, Default)]
struct Account {
    day: Arc<Mutex<Day>>,
    permits: Arc<Permits>,
}

/// The daily budget of one principal, as its sessions see it.
pub(crate) struct OwnBudget {
    all: Arc<DailyBudget>,
    principal: Principal,
}

impl DailyBudget {
    pub(crate) fn new(
        budget: Budget,
        store: Arc<dyn SessionStore>,
        directory: Option<PathBuf>,
    ) -> Self {
        let files = directory.map(UseFiles::new);
        DailyBudget { budget, store, files, accounts: Mutex::default() }
    }

    /// Returns the budget for the sessions of a principal, or `None` if usage is not bounded.
    pub(crate) fn of(self: &Arc<Self>, principal: &Principal) -> Option<Arc<dyn SharedBudget>> {
        let own = OwnBudget { all: self.clone(), principal: principal.clone() };
        self.is_bounded().then(|| Arc::new(own) as Arc<dyn SharedBudget>)
    }

    /// Checks that the principal's budget for today is not used up. A run counts on the day it
    /// began, and its requests after midnight on the next one.
    pub(crate) async fn check(&self, principal: &Principal) -> Result<(), ApiError> {
        let Some((mut day, permits)) = self.today(principal).await else { return Ok(()) };
        let reserved = permits.snapshot();
        day.update(&*self.store, principal).await?;
        let stored = self.stored(principal, day.start).await.map_err(ApiError::from)?;
        match self.used_up(day.used(&stored, &reserved)) {
            None => Ok(()),
            Some(why) => {
                let left = seconds_left(day.start);
                let why = format!(
                    "The daily budget of `{principal}` is used up: {why}. The next day begins at \
                     00:00 UTC, in {} minutes.",
                    left / 60 + 1
                );
                Err(ApiError::new(ErrorKind::TooMany, why).with_retry_after(left))
            }
        }
    }

    /// Records the usage of a session that is about to be deleted, so that it still counts.
    pub(crate) async fn keep(&self, session: &SessionInfo) {
        let Some(owner) = &session.owner else { return };
        let Some((mut day, _)) = self.today(owner).await else { return };
        if session.changed < day.start {
            return;
        }
        if let Err(error) = day.read(&*self.store, session).await {
            tracing::warn!(session = &*session.id, %error, "what it has used does not count");
            return;
        }
        let used = day.used_in_tree(&session.id);
        if used != (0, 0.0) {
            self.write(owner, Some(session.id.clone()), used, day.start).await;
        }
    }

    /// Counts the requests of a session that exists only in this memory, from entry `first` on,
    /// until [`end_run`](Self::end_run) is called.
    pub(crate) async fn start_run(
        &self,
        principal: &Principal,
        memory: Arc<dyn Memory>,
        first: u64,
    ) {
        let Some((mut day, _)) = self.today(principal).await else { return };
        day.start_run(memory, first);
    }

    /// Adds the usage of a session in memory to the usage of requests without a session.
    pub(crate) async fn end_run(&self, principal: &Principal, memory: &Arc<dyn Memory>) {
        let Some((mut day, _)) = self.today(principal).await else { return };
        let used = day.end_run(memory).await;
        if !self.write(principal, None, used, day.start).await {
            day.requests = add(day.requests, used);
        }
    }

    /// Adds usage to the file of the day. Returns whether it was written.
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

    /// Reads the usage of a principal from the file of a day.
    async fn stored(&self, principal: &Principal, start: u64) -> Result<StoredUse, MemoryError> {
        let Some(files) = &self.files else { return Ok(StoredUse::default()) };
        files.of(principal, start).await.map_err(|why| {
            let directory = files.directory().display();
            tracing::error!(%directory, %why, "the use of a day cannot be read");
            let why = "what was used today cannot be read; the server's log says why";
            MemoryError::Failed(why.into())
        })
    }

    fn is_bounded(&self) -> bool {
        self.budget.tokens.is_some() || self.budget.cost.is_some()
    }

    /// Returns the locked account of a principal for today, or `None` if usage is not bounded.
    async fn today(&self, principal: &Principal) -> Option<(OwnedMutexGuard<Day>, Arc<Permits>)> {
        if !self.is_bounded() {
            return None;
        }
        let Account { day, permits } = self.account(principal).await;
        let mut day = day.lock_owned().await;
        let start = SystemEnvironment.now() / DAY * DAY;
        if day.start != start {
            day.begin(start);
        }
        Some((day, permits))
    }

    async fn account(&self, principal: &Principal) -> Account {
        self.accounts.lock().await.entry(principal.clone()).or_default().clone()
    }

    /// Returns which limit is used up, as text for an error, if one is.
    fn used_up(&self, (used_tokens, used_cost): Use) -> Option<String> {
        match (self.budget.tokens, self.budget.cost) {
            (Some(tokens), _) if used_tokens >= tokens => {
                Some(format!("{used_tokens} of {tokens} tokens"))
            }
            (_, Some(cost)) if used_cost >= cost => Some(format!("${used_cost:.2} of ${cost:.2}")),
            _ => None,
        }
    }

    /// Returns whether this usage is within the budget.
    fn allows(&self, (used_tokens, used_cost): Use) -> bool {
        self.budget.tokens.is_none_or(|tokens| used_tokens <= tokens)
            && self.budget.cost.is_none_or(|cost| used_cost <= cost)
    }
}

fn seconds_left(start: u64) -> u64 {
    let left = Duration::from_millis((start + DAY).saturating_sub(SystemEnvironment.now()));
    left.as_secs() + 1
}

#[async_trait]
impl SharedBudget for OwnBudget {
    async fn reserve(&self, session: &str, estimate: Estimate) -> Result<BudgetPermit, StepError> {
        let permits = self.all.account(&self.principal).await.permits;
        loop {
            let mut ended = std::pin::pin!(permits.ended());
            ended.as_mut().enable(); // before the attempt
            if let Some(permit) = self.try_reserve(session, estimate).await? {
                return Ok(permit);
            }
            ended.await;
        }
    }

    async fn try_reserve(
        &self,
        session: &str,
        estimate: Estimate,
    ) -> Result<Option<BudgetPermit>, StepError> {
        let OwnBudget { all, principal } = self;
        let Some((mut day, permits)) = all.today(principal).await else {
            return Ok(Some(Box::new(())));
        };
        let reserved = permits.snapshot();
        day.update(&*all.store, principal).await?;
        day.follow(&*all.store, session).await?;
        let stored = all.stored(principal, day.start).await?;
        let used = day.used(&stored, &reserved);
        if let Some(why) = all.used_up(used) {
            let minutes = seconds_left(day.start) / 60 + 1;
            return Err(StepError::Limit(LimitReached::shared(format!(
                "the daily budget of `{principal}` is used up: {why}; the next day begins at \
                 00:00 UTC, in {minutes} minutes"
            ))));
        }
        let needed = (estimate.tokens, estimate.cost.unwrap_or_default());
        // The last request may exceed the budget, so it is sent alone.
        let alone = reserved.sessions.is_empty();
        let fits = alone || all.allows(add(add(used, reserved.all), needed));
        Ok(fits.then(|| permits.reserve(session, needed)))
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::{InMemoryStore, LogEntry};
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

    /// C230: The usage of a principal's sessions since midnight counts once, and new entries are
    /// added. Earlier days, shares of forks and other principals do not count.
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

    /// A store in which a request ends during the next read.
    #[derive(Default)]
    struct EndsMeanwhile {
        inner: InMemoryStore,
        ends: std::sync::Mutex<Option<BudgetPermit>>,
    }

    #[async_trait]
    impl SessionStore for EndsMeanwhile {
        async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
            self.inner.open(session).await
        }

        async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
            let read = self.inner.read(session, from).await;
            drop(self.ends.lock().unwrap().take());
            read
        }

        async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
            self.inner.sessions().await
        }

        async fn delete(&self, session: &str) -> Result<(), MemoryError> {
            self.inner.delete(session).await
        }
    }

    /// C410: A request that ends while the logs are read counts with its reservation. It neither
    /// counts as the request of a dead process, nor is it left out.
    #[tokio::test]
    async fn a_request_that_ends_meanwhile_counts_with_what_was_reserved() {
        let store = Arc::new(EndsMeanwhile::default());
        let budget = Budget::default().tokens(100);
        let all = Arc::new(DailyBudget::new(budget, store.clone(), None));
        let ann = Principal::new("ann");
        let own = OwnBudget { all: all.clone(), principal: ann.clone() };
        let permit = own.try_reserve("first", Estimate::new(90, None)).await.unwrap();
        let log = store.open("first").await.unwrap();
        let opened = LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: Some(ann.clone()) };
        let mut run = run(1, SystemEnvironment.now(), 0);
        run.truncate(1);
        let request = serde_json::from_value(json!({
            "type": "request_started", "message": MessageId(1), "model": "m",
            "estimate": { "tokens": 200 },
        }));
        log.append(0, [opened, run.remove(0), request.unwrap()].into()).await.unwrap();

        *store.ends.lock().unwrap() = permit;
        let beside = own.try_reserve("second", Estimate::new(20, None)).await.unwrap();
        assert!(beside.is_none(), "90 are reserved");
        assert!(store.ends.lock().unwrap().is_none(), "the request has ended");
        assert!(all.check(&ann).await.is_err(), "from now on its process may have died");
    }
}
