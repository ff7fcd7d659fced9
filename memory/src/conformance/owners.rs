//! Owners: one at a time, and who comes after.

use futures::future::join_all;
use loopwright_core::SessionStore;
use loopwright_core::log::MemoryError;

use super::{Checked, append, broken, in_use, load, opened, read_is, same_items, samples};

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    exclusive(store).await?;
    racing(store).await
}

async fn exclusive(store: &dyn SessionStore) -> Checked {
    let rule = "while a session is open, opening it again says InUse";
    let first = opened(store, "owned").await?;
    in_use(store.open("owned").await, rule)?;
    append(&*first, 0, &[samples::said("first")]).await?;
    in_use(store.open("owned").await, rule)?;
    in_use(store.delete("owned").await, "while a session is open, deleting it says InUse")?;
    let other = opened(store, "another").await?;
    append(&*other, 0, &[samples::said("another")]).await?;
    append(&*first, 1, &[samples::said("second")]).await?;
    let both = [samples::said("first"), samples::said("second")];
    read_is(store, "owned", &both, "a refused opening changes nothing").await?;
    let clone = first.clone();
    drop(first);
    in_use(
        store.open("owned").await,
        "a session is open as long as one handle of its memory lives",
    )?;
    drop(clone);
    let again = opened(store, "owned").await?;
    same_items(&load(&*again, 0).await?, &both, "the next owner of a session finds all its items")?;
    append(&*again, 2, &[samples::said("third")]).await
}

async fn racing(store: &dyn SessionStore) -> Checked {
    let rule =
        "of many that open a session at the same time exactly one gets it, and the others InUse";
    for round in 0..8 {
        let session = format!("race {}", round / 2); // each once new, and once there already
        let racers = join_all((0..8).map(|_| store.open(&session))).await;
        let mut winner = None;
        for racer in racers {
            match racer {
                Ok(memory) if winner.is_none() => winner = Some(memory),
                Ok(_) => return Err(broken(rule, "two have it")),
                Err(MemoryError::InUse(_)) => {}
                Err(other) => return Err(broken(rule, other)),
            }
        }
        let Some(winner) = winner else {
            return Err(broken(rule, "nobody has it"));
        };
        append(&*winner, round % 2, &[samples::said("mine")]).await?;
    }
    Ok(())
}
