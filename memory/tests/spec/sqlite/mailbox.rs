//! Inputs that were posted, in the file.

use loopwright_core::agent::InputError;
use loopwright_core::event::InputEvent;
use loopwright_core::log::{InputReceipt, PostedInput};

use super::*;

fn steer(id: &str) -> PostedInput {
    PostedInput::new(id, InputEvent::Steer("x".into())).unwrap()
}

/// C219: a file without mailboxes, of the format before, gets them when it is opened.
#[tokio::test]
async fn a_file_of_the_first_format_gets_mailboxes() {
    let (_folder, path) = temp_store_path();
    drop(begin(&Sqlite::open(&path).unwrap(), "s", &numbered(0..3)).await);
    let raw = raw_connection(&path);
    raw.execute_batch("DROP TABLE mailbox; PRAGMA user_version = 1").unwrap();
    drop(raw);
    let stores = [Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap()];
    for store in &stores {
        assert_eq!(store.post("s", &steer("i")).await, Ok(None));
    }
    let memory = stores[0].open("s").await.unwrap();
    assert_eq!(memory.mailbox().unwrap().unread().await.unwrap().len(), 1);
    assert_eq!(memory.load(0).await.unwrap(), numbered(0..3));
    drop((memory, stores));
    let raw = raw_connection(&path);
    raw.execute_batch("DROP TABLE mailbox").unwrap();
    drop(raw);
    let damaged = Sqlite::open(&path).err().unwrap();
    assert!(matches!(damaged, MemoryError::Damaged(_)), "{damaged}");
}

/// C82: a posted input that was changed in the file, or can no longer be reached, is damage.
#[tokio::test]
async fn a_damaged_mailbox_is_reported() {
    for damage in ["UPDATE mailbox SET json = '\"reset\"'", "DELETE FROM mailbox WHERE input = 'i'"]
    {
        let (_folder, path) = temp_store_path();
        let store = Sqlite::open(&path).unwrap();
        let memory = begin(&store, "s", &numbered(0..1)).await;
        for id in ["i", "j"] {
            store.post("s", &steer(id)).await.unwrap();
        }
        raw_connection(&path).execute(damage, ()).unwrap();
        let damaged = memory.mailbox().unwrap().unread().await.err().unwrap();
        assert!(matches!(damaged, MemoryError::Damaged(_)), "{damage}: {damaged}");
    }
}

/// C213: the owner and its receipt are checked in one transaction.
#[tokio::test]
async fn a_former_owner_writes_no_receipt() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    store.post("s", &steer("i")).await.unwrap();
    // Without its lock file, an owner counts as dead.
    std::fs::remove_dir_all(path.with_file_name("sessions.db-owners")).unwrap();
    let _successor = Sqlite::open(&path).unwrap().open("s").await.unwrap();
    let refused = InputReceipt::Refused(InputError::Busy);
    let written = memory.mailbox().unwrap().acknowledge(&"i".into(), &refused).await;
    assert_eq!(written, Err(MemoryError::Lost));
    assert_eq!(store.post("s", &steer("i")).await, Ok(None));
}
