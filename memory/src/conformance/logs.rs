//! Logs: in order, exact, all or none, each by itself, under any name.

use futures::future::join_all;
use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, MemoryError};

use super::{
    Checked, absent, append, append_each, broken, load, opened, read_is, refused, same, same_items,
    samples,
};

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    empty(store).await?;
    exact(store).await?;
    all_or_none(store).await?;
    dropped(store).await?;
    names(store).await?;
    apart(store).await
}

async fn empty(store: &dyn SessionStore) -> Checked {
    let rule = "a session without an item is there for nobody but its owner";
    absent(store, "empty", rule).await?;
    let memory = opened(store, "empty").await?;
    same(&load(&*memory, 0).await?, &vec![], "a new session is empty")?;
    same(&load(&*memory, 9).await?, &vec![], "loading from beyond the end gives nothing")?;
    append(&*memory, 0, &[]).await?;
    refused(&*memory, 1, 0).await?;
    absent(store, "empty", rule).await?;
    drop(memory);
    absent(store, "empty", rule).await?;
    same(
        &load(&*opened(store, "empty").await?, 0).await?,
        &vec![],
        "a session without an item is empty when it is opened",
    )
}

async fn exact(store: &dyn SessionStore) -> Checked {
    let (items, rule) =
        (samples::every_item(), "items come back in order and exactly as they were");
    let memory = opened(store, "exact").await?;
    append_each(&*memory, &items).await?;
    for from in [0, 1, items.len() / 2, items.len() - 1, items.len(), items.len() + 1, usize::MAX] {
        let wanted = items.get(from..).unwrap_or_default();
        same_items(
            &load(&*memory, from as u64).await?,
            wanted,
            &format!("{rule}: `load` from {from}"),
        )?;
        let read = store
            .read("exact", from as u64)
            .await
            .map_err(|e| broken("an open session can be read", e))?;
        same_items(&read, wanted, &format!("{rule}: `read` from {from}"))?;
    }
    drop(memory);
    read_is(store, "exact", &items, "a session that is closed can be read").await?;
    same_items(
        &load(&*opened(store, "exact").await?, 0).await?,
        &items,
        &format!("{rule}: after opening again"),
    )
}

async fn all_or_none(store: &dyn SessionStore) -> Checked {
    let items = samples::every_item();
    let memory = opened(store, "at once").await?;
    append(&*memory, 0, &items).await?;
    same_items(
        &load(&*memory, 0).await?,
        &items,
        "an append of several items takes place as a whole",
    )?;
    let end = items.len() as u64;
    for at in [0, 1, end - 1, end + 1, u64::MAX] {
        refused(&*memory, at, end).await?;
    }
    read_is(store, "at once", &items, "an append that conflicts changes nothing").await?;
    append(&*memory, end, &items).await?;
    let twice = [&items[..], &items[..]].concat();
    read_is(store, "at once", &twice, "the log goes on after a conflict").await
}

/// An append whose future is dropped after it was polled a few times.
async fn dropped(store: &dyn SessionStore) -> Checked {
    let rule = "an append whose future is dropped takes place as a whole or not at all";
    let memory = opened(store, "dropped").await?;
    let mut log: Vec<LogEntry> = Vec::new();
    for polls in 0..20 {
        let batch = [
            samples::said("one"),
            samples::replied("two", 0.5),
            samples::said(&"x".repeat(100_000)),
        ];
        let at = log.len() as u64;
        let mut write = memory.append(at, batch.clone().into());
        for _ in 0..polls {
            if let std::task::Poll::Ready(done) = futures::poll!(&mut write) {
                done.map_err(|e| broken("an append at the end of the log takes place", e))?;
                break;
            }
            yield_now().await;
        }
        drop(write);
        let mark = samples::said("mark");
        let with = [&log[..], &batch[..]].concat();
        let mut tries = 0;
        loop {
            let end = load(&*memory, 0).await?.len() as u64;
            if end != at && end != at + 3 {
                return Err(broken(rule, format_args!("{} of 3 items", end - at)));
            }
            match memory.append(end, [mark.clone()].into()).await {
                Ok(()) => break log = if end == at { log } else { with },
                Err(MemoryError::Conflict { .. }) if end == at && tries < 2 => tries += 1, // it has come in between
                Err(other) => {
                    return Err(broken(rule, format_args!("after it, an append fails: {other}")));
                }
            }
        }
        log.push(mark);
        same_items(&load(&*memory, 0).await?, &log, rule)?;
    }
    drop(memory);
    read_is(store, "dropped", &log, rule).await
}

/// Lets other tasks go on, once.
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
    let rule =
        "every name of 1 to 200 bytes is a session's, and different names are different sessions";
    let (long, longer, wide) = ("n".repeat(200), "N".repeat(199) + "n", "é".repeat(100));
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
        &longer,
        &wide,
    ];
    for name in names {
        let memory =
            store.open(name).await.map_err(|e| broken(rule, format_args!("for {name:?}: {e}")))?;
        same(&load(&*memory, 0).await?, &vec![], &format!("{rule} ({name:?} is new)"))?;
        append(&*memory, 0, &[samples::said(name)]).await?;
    }
    for name in names {
        read_is(store, name, &[samples::said(name)], &format!("{rule} ({name:?})")).await?;
    }
    let listed = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    for name in names {
        let times = listed.iter().filter(|info| *info.id == *name).count();
        same(&times, &1, &format!("{rule} (times that {name:?} is listed)"))?;
    }
    for name in ["", &*"long".repeat(1000)] {
        let rule = "a name that is empty or too long works like others, or is refused with Failed and nothing changed";
        match store.open(name).await {
            Ok(memory) => {
                append(&*memory, 0, &[samples::said("odd")]).await?;
                read_is(store, name, &[samples::said("odd")], rule).await?;
            }
            Err(MemoryError::Failed(_)) => {
                let now =
                    store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
                same(&now.len(), &listed.len(), rule)?;
            }
            Err(other) => return Err(broken(rule, other)),
        }
        let Ok(()) = store.delete(name).await else {
            continue;
        };
        absent(store, name, "a deleted session is gone").await?;
    }
    Ok(())
}

/// Many sessions at once, each its own.
async fn apart(store: &dyn SessionStore) -> Checked {
    let own = |session: usize, n: usize| {
        [samples::said(&format!("{n} of {session}")), samples::replied("r", n as f64)]
    };
    let writers = (0..16).map(|session| async move {
        let name = format!("apart {session}");
        let memory = opened(store, &name).await?;
        for n in 0..20 {
            append(&*memory, 2 * n as u64, &own(session, n)).await?;
        }
        drop(memory);
        let wanted: Vec<LogEntry> = (0..20).flat_map(|n| own(session, n)).collect();
        read_is(store, &name, &wanted, "sessions that are written at the same time do not mix")
            .await
    });
    join_all(writers).await.into_iter().collect()
}
