//! Checks of ownership: one owner at a time, and its successor.

use futures::future::join_all;
use loopwright_core::SessionStore;
use loopwright_core::log::MemoryError;

use super::expect::{
    Checked, append, broken, expect_eq_entries, expect_in_use, expect_reads, load, open_session,
};
use super::samples;

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    exclusive(store).await?;
    racing(store).await
}

async fn exclusive(store: &dyn SessionStore) -> Checked {
    let rule = "while a session is open, opening it again returns InUse";
    let first = open_session(store, "owned").await?;
    expect_in_use(store.open("owned").await, rule)?;
    expect_known_use(store, "owned", true).await?;
    append(&*first, 0, &[samples::remembered("first")]).await?;
    expect_in_use(store.open("owned").await, rule)?;
    expect_in_use(
        store.delete("owned").await,
        "while a session is open, deleting it returns InUse",
    )?;
    let other = open_session(store, "another").await?;
    append(&*other, 0, &[samples::remembered("another")]).await?;
    append(&*first, 1, &[samples::remembered("second")]).await?;
    let both = [samples::remembered("first"), samples::remembered("second")];
    expect_reads(store, "owned", &both, "a refused opening changes nothing").await?;
    let clone = first.clone();
    drop(first);
    expect_in_use(
        store.open("owned").await,
        "a session stays open until the last handle of its memory is dropped",
    )?;
    drop(clone);
    expect_known_use(store, "owned", false).await?;
    expect_known_use(store, "missing", false).await?;
    let next = open_session(store, "owned").await?;
    expect_eq_entries(
        &load(&*next, 0).await?,
        &both,
        "the next owner of a session loads all its entries",
    )?;
    append(&*next, 2, &[samples::remembered("third")]).await
}

async fn expect_known_use(store: &dyn SessionStore, session: &str, in_use: bool) -> Checked {
    let rule = "`in_use` says whether a session is open, or that the store does not know it";
    match store.in_use(session).await {
        Ok(None) => Ok(()),
        Ok(Some(known)) if known == in_use => Ok(()),
        other => Err(broken(rule, format!("`{session}`: {other:?}"))),
    }
}

async fn racing(store: &dyn SessionStore) -> Checked {
    let rule =
        "of concurrent attempts to open a session exactly one succeeds; the others return InUse";
    for round in 0..8 {
        let session = format!("race {}", round / 2); // each once new, and once existing
        let racers = join_all((0..8).map(|_| store.open(&session))).await;
        let mut winner = None;
        for racer in racers {
            match racer {
                Ok(memory) if winner.is_none() => winner = Some(memory),
                Ok(_) => return Err(broken(rule, "two succeeded")),
                Err(MemoryError::InUse(_)) => {}
                Err(other) => return Err(broken(rule, other)),
            }
        }
        let Some(winner) = winner else {
            return Err(broken(rule, "none succeeded"));
        };
        append(&*winner, round % 2, &[samples::remembered("mine")]).await?;
    }
    Ok(())
}
