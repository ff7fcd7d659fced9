//! Checks of logs: order, exactness, atomic appends, names, independence.

use futures::future::join_all;
use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, MemoryError};

use super::expect::{
    Checked, append, append_each, broken, expect_absent, expect_conflict, expect_eq,
    expect_eq_entries, expect_reads, load, open_session,
};
use super::samples;

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    empty(store).await?;
    exact(store).await?;
    all_or_none(store).await?;
    dropped(store).await?;
    names(store).await?;
    independent(store).await
}

async fn empty(store: &dyn SessionStore) -> Checked {
    let rule = "a session without entries exists only for its owner";
    expect_absent(store, "empty", rule).await?;
    let memory = open_session(store, "empty").await?;
    expect_eq(&load(&*memory, 0).await?, &vec![], "a new session is empty")?;
    expect_eq(
        &load(&*memory, 9).await?,
        &vec![],
        "loading from beyond the end returns no entries",
    )?;
    append(&*memory, 0, &[]).await?;
    expect_conflict(&*memory, 1, 0).await?;
    expect_absent(store, "empty", rule).await?;
    drop(memory);
    expect_absent(store, "empty", rule).await?;
    expect_eq(
        &load(&*open_session(store, "empty").await?, 0).await?,
        &vec![],
        "a session without entries is empty when it is opened",
    )
}

async fn exact(store: &dyn SessionStore) -> Checked {
    let entries = samples::every_entry();
    let rule = "entries are returned in order and unchanged";
    let memory = open_session(store, "exact").await?;
    append_each(&*memory, &entries).await?;
    for from in
        [0, 1, entries.len() / 2, entries.len() - 1, entries.len(), entries.len() + 1, usize::MAX]
    {
        let expected = entries.get(from..).unwrap_or_default();
        expect_eq_entries(
            &load(&*memory, from as u64).await?,
            expected,
            &format!("{rule}: `load` from {from}"),
        )?;
        let read = store
            .read("exact", from as u64)
            .await
            .map_err(|e| broken("an open session can be read", e))?;
        expect_eq_entries(&read, expected, &format!("{rule}: `read` from {from}"))?;
    }
    drop(memory);
    expect_reads(store, "exact", &entries, "a session that is closed can be read").await?;
    expect_eq_entries(
        &load(&*open_session(store, "exact").await?, 0).await?,
        &entries,
        &format!("{rule}: after reopening"),
    )
}

async fn all_or_none(store: &dyn SessionStore) -> Checked {
    let entries = samples::every_entry();
    let memory = open_session(store, "at once").await?;
    append(&*memory, 0, &entries).await?;
    expect_eq_entries(
        &load(&*memory, 0).await?,
        &entries,
        "an append of several entries is atomic",
    )?;
    let end = entries.len() as u64;
    for at in [0, 1, end - 1, end + 1, u64::MAX] {
        expect_conflict(&*memory, at, end).await?;
    }
    expect_reads(store, "at once", &entries, "an append that conflicts changes nothing").await?;
    append(&*memory, end, &entries).await?;
    let twice = [&entries[..], &entries[..]].concat();
    expect_reads(store, "at once", &twice, "the log accepts appends after a conflict").await
}

/// Drops the future of an append after polling it a few times.
async fn dropped(store: &dyn SessionStore) -> Checked {
    let rule = "an append whose future is dropped takes effect as a whole or not at all";
    let memory = open_session(store, "dropped").await?;
    let mut log: Vec<LogEntry> = Vec::new();
    for polls in 0..20 {
        let batch = [
            samples::remembered("one"),
            samples::replied("two", 0.5),
            samples::remembered(&"x".repeat(100_000)),
        ];
        let at = log.len() as u64;
        let mut write = memory.append(at, batch.clone().into());
        for _ in 0..polls {
            if let std::task::Poll::Ready(done) = futures::poll!(&mut write) {
                done.map_err(|e| broken("an append at the end of the log succeeds", e))?;
                break;
            }
            yield_now().await;
        }
        drop(write);
        let mark = samples::remembered("mark");
        let log_with_batch = [&log[..], &batch[..]].concat();
        let mut tries = 0;
        loop {
            let end = load(&*memory, 0).await?.len() as u64;
            if end != at && end != at + 3 {
                return Err(broken(rule, format_args!("{} of 3 entries", end - at)));
            }
            match memory.append(end, [mark.clone()].into()).await {
                Ok(()) => break log = if end == at { log } else { log_with_batch },
                // The dropped append took effect in between.
                Err(MemoryError::Conflict { .. }) if end == at && tries < 2 => tries += 1,
                Err(other) => {
                    return Err(broken(rule, format_args!("an append after it fails: {other}")));
                }
            }
        }
        log.push(mark);
        expect_eq_entries(&load(&*memory, 0).await?, &log, rule)?;
    }
    drop(memory);
    expect_reads(store, "dropped", &log, rule).await
}

/// Yields to other tasks once.
async fn yield_now() {
    let mut yielded = false;
    futures::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut yielded, true) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

async fn names(store: &dyn SessionStore) -> Checked {
    let rule = "every name of 1 to 200 bytes is valid, and different names are different sessions";
    let long = "n".repeat(200);
    let upper = "N".repeat(199) + "n";
    let wide = "é".repeat(100);
    let names = [
        "a",
        "A",
        "0",
        ".",
        "..",
        ".hidden",
        "/",
        "/etc/passwd",
        "../up",
        "a/b",
        "a\\b",
        "a b",
        " ",
        " a",
        "a ",
        "a.",
        "\n",
        "a\nb",
        "\0",
        "a\0b",
        "%",
        "%2f",
        "%2F",
        "%%",
        "_",
        "a_",
        "é",
        "e\u{301}",
        "É",
        "👩‍👩‍👧‍👦",
        "\u{2028}",
        "'; --",
        "\"",
        "*",
        "?",
        "~",
        "$HOME",
        "-",
        "--help",
        "con",
        "NUL",
        "nul.jsonl",
        "Case",
        "case",
        "CASE",
        "x.jsonl",
        "x",
        "x.torn",
        "x.tmp",
        ":",
        "[1]",
        "null",
        &long,
        &upper,
        &wide,
    ];
    for name in names {
        let memory =
            store.open(name).await.map_err(|e| broken(rule, format_args!("for {name:?}: {e}")))?;
        expect_eq(&load(&*memory, 0).await?, &vec![], &format!("{rule} ({name:?} is new)"))?;
        append(&*memory, 0, &[samples::remembered(name)]).await?;
    }
    for name in names {
        expect_reads(store, name, &[samples::remembered(name)], &format!("{rule} ({name:?})"))
            .await?;
    }
    let listed = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    for name in names {
        let times = listed.iter().filter(|info| *info.id == *name).count();
        expect_eq(&times, &1, &format!("{rule} (times that {name:?} is listed)"))?;
    }
    for name in ["", &*"long".repeat(1000)] {
        let rule =
            "a name that is empty or too long is valid, or is refused with Failed and no change";
        match store.open(name).await {
            Ok(memory) => {
                append(&*memory, 0, &[samples::remembered("odd")]).await?;
                expect_reads(store, name, &[samples::remembered("odd")], rule).await?;
            }
            Err(MemoryError::Failed(_)) => {
                let now =
                    store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
                expect_eq(&now.len(), &listed.len(), rule)?;
            }
            Err(other) => return Err(broken(rule, other)),
        }
        let Ok(()) = store.delete(name).await else {
            continue;
        };
        expect_absent(store, name, "a deleted session is gone").await?;
    }
    Ok(())
}

/// Writes many sessions at the same time.
async fn independent(store: &dyn SessionStore) -> Checked {
    let entries = |session: usize, n: usize| {
        [samples::remembered(&format!("{n} of {session}")), samples::replied("r", n as f64)]
    };
    let writers = (0..16).map(|session| async move {
        let name = format!("independent {session}");
        let memory = open_session(store, &name).await?;
        for n in 0..20 {
            append(&*memory, 2 * n as u64, &entries(session, n)).await?;
        }
        drop(memory);
        let expected: Vec<LogEntry> = (0..20).flat_map(|n| entries(session, n)).collect();
        expect_reads(
            store,
            &name,
            &expected,
            "sessions that are written at the same time do not mix",
        )
        .await
    });
    join_all(writers).await.into_iter().collect()
}
