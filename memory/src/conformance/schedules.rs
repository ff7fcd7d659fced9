//! Checks of schedules and of the list of due sessions, of stores that have them.

use loopwright_core::event::InputEvent;
use loopwright_core::log::{
    LogEntry, MAX_SESSION_SCHEDULES, MemoryError, PostedInput, Schedule, ScheduleQuery, Schedules,
    Workers,
};
use loopwright_core::{Principal, SessionStore};

use super::expect::{Checked, append, broken, expect_eq, open_session};
use super::samples;

/// A time in the past, and one in the future, in any year of this century.
const PAST: u64 = 1_000_000_000_000;
const FUTURE: u64 = 4_000_000_000_000;

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    if let Some(schedules) = store.schedules() {
        check_schedules(store, schedules).await?;
        check_schedule_lists(store, schedules).await?;
    }
    match store.workers() {
        Some(workers) => check_workers(store, workers).await,
        None => Ok(()),
    }
}

fn request() -> InputEvent {
    InputEvent::UserRequest("wake up".into())
}

async fn create(store: &dyn SessionStore, session: &str) -> Checked {
    let memory = open_session(store, session).await?;
    append(&*memory, 0, &[samples::remembered("hello")]).await?;
    memory.close().await;
    Ok(())
}

async fn put(schedules: &dyn Schedules, id: &str, time: u64) -> Checked {
    let schedule = Schedule::once("scheduled", id, time, request());
    let rule = "a schedule of a session is stored";
    schedules.put(&schedule).await.map_err(|error| broken(rule, error))
}

async fn of_session(schedules: &dyn Schedules) -> Result<Vec<(String, u64)>, String> {
    let found = schedules.of_session("scheduled").await;
    let found = found.map_err(|error| broken("the schedules of a session are read", error))?;
    Ok(found.iter().map(|it| (it.id.to_string(), it.next)).collect())
}

async fn due(schedules: &dyn Schedules) -> Result<Vec<Schedule>, String> {
    schedules.due(10).await.map_err(|error| broken("the schedules that are due are read", error))
}

async fn check_schedules(store: &dyn SessionStore, schedules: &dyn Schedules) -> Checked {
    let missing = schedules.put(&Schedule::once("scheduled", "a", PAST, request())).await;
    let rule = "a schedule of a missing session is refused";
    expect_eq(&missing, &Err(MemoryError::NoSession("scheduled".into())), rule)?;
    create(store, "scheduled").await?;
    put(schedules, "b\0ut", FUTURE).await?;
    put(schedules, "a", FUTURE).await?;
    put(schedules, "a", PAST).await?;
    let all = [("a".to_owned(), PAST), ("b\0ut".to_owned(), FUTURE)];
    let rule = "schedules are sorted by id, and one with the same id replaces another";
    expect_eq(&of_session(schedules).await?, &all.to_vec(), rule)?;

    let found = due(schedules).await?;
    let ids: Vec<&str> = found.iter().map(|it| &*it.id).collect();
    expect_eq(&ids, &vec!["a"], "only schedules whose time has come are due")?;
    let first = found.into_iter().next().ok_or_else(|| broken("a schedule is due", "none"))?;
    let mut next = first.clone();
    (next.next, next.last) = (FUTURE, Some(PAST));
    let advanced = schedules.advance(&first, Some(&next)).await;
    expect_eq(&advanced, &Ok(true), "a schedule is advanced")?;
    let rule = "a schedule is advanced once";
    expect_eq(&schedules.advance(&first, None).await, &Ok(false), rule)?;
    let found = schedules.of_session("scheduled").await;
    let found = found.map_err(|error| broken("the schedules of a session are read", error))?;
    let stored = found.first().map(|it| (it.next, it.last, it.nonce));
    let rule = "a schedule that was advanced keeps what was set";
    expect_eq(&stored, &Some((FUTURE, Some(PAST), first.nonce)), rule)?;
    expect_eq(&due(schedules).await?.len(), &0, "a schedule that was advanced is not due")?;
    let replaced = Schedule::once("scheduled", "b\0ut", FUTURE, request());
    let rule = "a schedule that was replaced for the same time is not advanced";
    expect_eq(&schedules.advance(&replaced, None).await, &Ok(false), rule)?;
    let last = found.last().cloned().ok_or_else(|| broken("it is listed", "none"))?;
    let ended = schedules.advance(&last, None).await;
    expect_eq(&ended, &Ok(true), "a schedule without a next time ends")?;
    let left = vec![("a".to_owned(), FUTURE)];
    expect_eq(&of_session(schedules).await?, &left, "a schedule that has ended is removed")?;
    expect_eq(&schedules.remove("scheduled", "b").await, &Ok(false), "no schedule, none removed")?;
    put(schedules, "gone", PAST).await?;
    let rule = "a schedule is removed";
    expect_eq(&schedules.remove("scheduled", "gone").await, &Ok(true), rule)?;

    put(schedules, "kept", PAST).await?;
    store.delete("scheduled").await.map_err(|error| broken("a session is deleted", error))?;
    let rule = "the schedules of a deleted session are deleted";
    expect_eq(&due(schedules).await?.len(), &0, rule)
}

async fn check_schedule_lists(store: &dyn SessionStore, schedules: &dyn Schedules) -> Checked {
    let opened = |owner: Option<&str>| LogEntry::Opened {
        epoch: 1,
        time: PAST,
        parent: None,
        owner: owner.map(Principal::new),
    };
    for (session, owner) in [("hers", Some("ann")), ("nobody's", None)] {
        let memory = open_session(store, session).await?;
        append(&*memory, 0, &[opened(owner)]).await?;
        memory.close().await;
    }
    let rule = "a schedule of a session is stored";
    for (session, id, time) in [
        ("nobody's", "c", FUTURE),
        ("hers", "b:é", FUTURE),
        ("nobody's", "z", FUTURE - 1),
        ("hers", "a", FUTURE),
    ] {
        let mut schedule = Schedule::once(session, id, time, request());
        schedule.cron = Some("0 9 * * *".into());
        schedule.time_zone = Some("Europe/Berlin".into());
        schedules.put(&schedule).await.map_err(|error| broken(rule, error))?;
    }
    let list = async |query: ScheduleQuery| {
        let (mut ids, mut next) = (Vec::new(), Some(query.clone()));
        while let Some(page) = next {
            let page = schedules.page(&page).await;
            let page = page.map_err(|error| broken("a page of schedules is read", error))?;
            let rule = "a page of schedules is not longer than its limit";
            expect_eq(&(page.schedules.len() <= query.limit), &true, rule)?;
            ids.extend(page.schedules.iter().map(|it| it.id.to_string()));
            next = page.next.map(|cursor| query.clone().after(cursor));
        }
        Ok::<_, String>(ids)
    };
    let all = ["z", "a", "b:é", "c"].map(str::to_owned).to_vec();
    let rule = "schedules are listed by time, session and id";
    expect_eq(&list(ScheduleQuery::new(100)).await?, &all, rule)?;
    let rule = "the pages of schedules together are the whole list";
    expect_eq(&list(ScheduleQuery::new(1)).await?, &all, rule)?;
    let hers = ScheduleQuery::new(1).owner(Principal::new("ann"));
    let rule = "the schedules of an owner are in the owner's sessions";
    expect_eq(&list(hers).await?, &["a", "b:é"].map(str::to_owned).to_vec(), rule)?;

    let page = schedules.page(&ScheduleQuery::new(1)).await;
    let page = page.map_err(|error| broken("a page of schedules is read", error))?;
    let cron = page.schedules.first().and_then(|it| it.cron.clone());
    expect_eq(&cron, &Some("0 9 * * *".into()), "a schedule keeps its cron expression")?;
    for (time, next, rule) in [
        (0, Some(FUTURE - 1), "the earliest time of all schedules is found"),
        (FUTURE - 1, Some(FUTURE), "the first time after a time is later than it"),
        (FUTURE, None, "there is no time after the last one"),
    ] {
        expect_eq(&schedules.next_after(time).await, &Ok(next), rule)?;
    }

    for n in 0..MAX_SESSION_SCHEDULES - 2 {
        let schedule = Schedule::once("hers", format!("n{n}"), FUTURE, request());
        let rule = "a session has as many schedules as it may have";
        schedules.put(&schedule).await.map_err(|error| broken(rule, error))?;
    }
    let (session, max) = (Some("hers".into()), MAX_SESSION_SCHEDULES);
    let refused = schedules.put(&Schedule::once("hers", "more", FUTURE, request())).await;
    let rule = "a session has not more schedules than it may have";
    expect_eq(&refused, &Err(MemoryError::TooManySchedules { session, max }), rule)?;
    let replaced = schedules.put(&Schedule::once("hers", "a", PAST, request())).await;
    expect_eq(&replaced, &Ok(()), "a schedule of a full session is replaced")?;
    for session in ["hers", "nobody's"] {
        store.delete(session).await.map_err(|error| broken("a session is deleted", error))?;
    }
    Ok(())
}

async fn check_workers(store: &dyn SessionStore, workers: &dyn Workers) -> Checked {
    // Other checks have left sessions behind.
    let due = async || {
        let found = workers.due(1_000).await;
        let found = found.map_err(|error| broken("the sessions that are due are read", error))?;
        let all = found.iter().map(|it| it.session.to_string());
        Ok::<_, String>(all.filter(|it| it == "due" || it == "at rest").collect::<Vec<_>>())
    };
    create(store, "due").await?;
    create(store, "at rest").await?;
    expect_eq(&due().await?, &Vec::new(), "a session at rest is not due")?;
    for (at, time, rule) in [
        (1, FUTURE, "a session whose timer has not passed is not due"),
        (2, PAST, "a session whose timer has passed is due"),
    ] {
        let memory = open_session(store, "at rest").await?;
        append(
            &*memory,
            at,
            &[LogEntry::WaitStarted { key: "t".into(), until: Some(time), for_signal: false }],
        )
        .await?;
        memory.close().await;
        let sleepers = if time == PAST { vec!["at rest".to_owned()] } else { Vec::new() };
        expect_eq(&due().await?, &sleepers, rule)?;
    }
    let memory = open_session(store, "at rest").await?;
    append(&*memory, 3, &[LogEntry::WaitCancelled { key: "t".into(), drops_signals: false }])
        .await?;
    memory.close().await;
    expect_eq(&due().await?, &Vec::new(), "a session whose timer is cancelled is not due")?;
    let input = PostedInput::new("i", request()).map_err(|why| broken("it is posted", why))?;
    store.post("due", &input).await.map_err(|error| broken("an input is posted", error))?;
    let rule = "a session with an unread input and no owner is due";
    expect_eq(&due().await?, &vec!["due".to_owned()], rule)?;

    let address = "http://127.0.0.1:1";
    let rule = "a worker announces its address";
    workers.announce(address).await.map_err(|error| broken(rule, error))?;
    let rule = "a session without an owner has no address";
    expect_eq(&workers.address("due").await, &Ok(None), rule)?;
    let memory = open_session(store, "due").await?;
    expect_eq(&due().await?, &Vec::new(), "a session that is open is not due")?;
    let rule = "an open session has the address of its owner";
    expect_eq(&workers.address("due").await, &Ok(Some(address.into())), rule)?;
    let all = workers.workers().await.map_err(|error| broken("workers are listed", error))?;
    let owner = all.iter().find(|it| it.address.as_deref() == Some(address));
    let seen = owner.map(|it| (it.is_alive, it.sessions));
    expect_eq(&seen, &Some((true, 1)), "the owner of a session is alive, and has it")?;
    memory.close().await;
    let rule = "a session that was left with unread inputs is due";
    expect_eq(&due().await?, &vec!["due".to_owned()], rule)?;
    for session in ["due", "at rest"] {
        store.delete(session).await.map_err(|error| broken("a session is deleted", error))?;
    }
    Ok(())
}
