//! Work that ends each process, in sessions with sub-agents.

use super::Family;
use crate::kit::*;

/// C400: Sub-agents that only wait for decisions keep no input from being held: they do nothing
/// that could be further than the log says.
#[tokio::test(start_paused = true)]
async fn sub_agents_that_wait_keep_no_input_from_being_held() {
    let family = Family::new();
    let (handle, events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    family.close(handle, events).await;
    let lost = |epoch| {
        let opened = LogEntry::Opened { epoch, time: 1, parent: None, owner: None };
        [opened, LogEntry::Owner { note: OwnerNote::TakesMail }]
    };
    let log = family.log("root").await;
    let killed: Vec<_> = [lost(2), lost(3)].concat();
    let memory = family.store.open("root").await.unwrap();
    memory.append(log.len() as u64, killed.into()).await.unwrap();
    drop(memory);
    let pill = PostedInput::new("pill", InputEvent::UserRequest("Kill.".into())).unwrap();
    family.store.post("root", &pill).await.unwrap();
    let (handle, events) = family.open().await;
    handle.wait_for_idle().await;
    family.close(handle, events).await;
    let info = family.store.session("root").await.unwrap();
    assert_eq!(info.held.map(|held| (held.owners, held.unread)), Some((2, 1)));
    assert_eq!((info.pending.len(), info.unread), (3, 1));
}
