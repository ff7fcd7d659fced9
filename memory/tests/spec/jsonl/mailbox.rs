//! Posted inputs, in the file beside the log.

use loopwright_core::event::InputEvent;
use loopwright_core::log::{InputReceipt, PostedInput};

use super::*;

fn steer(id: &str) -> PostedInput {
    PostedInput::new(id, InputEvent::Steer("x".into())).unwrap()
}

async fn unread(memory: &dyn Memory) -> Result<Vec<String>, MemoryError> {
    let unread = memory.mailbox().unwrap().unread().await?;
    Ok(unread.iter().map(|input| input.id.to_string()).collect())
}

/// C219: an unfinished line of a mailbox, left by a killed process, was never acknowledged, and is
/// replaced. Any other damage, and a newer format, is reported and left untouched.
#[tokio::test]
async fn a_torn_mailbox_is_repaired_and_a_damaged_one_is_reported() {
    let (_directory, store, file) = store(&[&[remembered("one")]]).await;
    let memory = store.open("s").await.unwrap();
    let mailbox = file.with_file_name("s.jsonl.mailbox");
    for id in ["i", "j"] {
        store.post("s", &steer(id)).await.unwrap();
    }
    let whole = fs::read(&mailbox).unwrap();
    let second = whole.iter().rposition(|byte| *byte == b'{').unwrap();
    for torn in [&whole[..second], &whole[..whole.len() - 2], &whole[..10], b""] {
        fs::write(&mailbox, torn).unwrap();
        assert!(!unread(&*memory).await.unwrap().contains(&"j".to_owned()));
        for id in ["i", "j"] {
            store.post("s", &steer(id)).await.unwrap();
        }
        assert_eq!(unread(&*memory).await.unwrap(), ["i", "j"]);
        let repaired = fs::read_to_string(&mailbox).unwrap();
        assert_eq!((repaired.lines().count(), repaired.ends_with('\n')), (3, true));
    }
    let mut unwritten = whole.clone();
    let end = unwritten.len();
    unwritten[end - 20..end - 1].fill(0);
    fs::write(&mailbox, unwritten).unwrap();
    assert_eq!(unread(&*memory).await, Ok(vec!["i".to_owned()]));

    for at in [0, 10, end / 2, end - 10, end - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&mailbox, &damaged).unwrap();
        for error in
            [unread(&*memory).await.unwrap_err(), store.post("s", &steer("k")).await.unwrap_err()]
        {
            assert!(matches!(error, MemoryError::Damaged(_)), "{at}: {error}");
            assert!(error.to_string().contains("s.jsonl.mailbox"), "{error}");
        }
        assert_eq!(fs::read(&mailbox).unwrap(), damaged);
    }
    let newer = String::from_utf8(whole).unwrap().replacen("\"version\":1", "\"version\":2", 1);
    fs::write(&mailbox, newer).unwrap();
    let error = unread(&*memory).await.unwrap_err();
    assert!(matches!(error, MemoryError::Newer { found: 2, known: 1, .. }), "{error}");
}

/// C219: a receipt outlives its process. A mailbox is deleted with its session.
#[tokio::test]
async fn the_mailbox_is_a_file_of_the_session() {
    let (directory, store, file) = store(&[&[remembered("one")]]).await;
    let memory = store.open("s").await.unwrap();
    store.post("s", &steer("i")).await.unwrap();
    let accepted = InputReceipt::Accepted;
    memory.mailbox().unwrap().acknowledge(&"i".into(), &accepted).await.unwrap();
    drop((memory, store));
    let store = Jsonl::open(directory.path()).unwrap();
    assert_eq!(store.post("s", &steer("i")).await, Ok(Some(accepted)));
    let mailbox = file.with_file_name("s.jsonl.mailbox");
    assert!(mailbox.exists());
    store.delete("s").await.unwrap();
    assert!(!mailbox.exists());
}

/// C275: an input whose poster was killed before announcing it is announced when it is posted
/// again.
#[tokio::test]
async fn an_unread_input_that_is_posted_twice_is_announced_twice() {
    let (_directory, store, file) = store(&[&[remembered("one")]]).await;
    let memory = store.open("s").await.unwrap();
    let mailbox = memory.mailbox().unwrap();
    // A killed poster leaves a row without a hint.
    let copy = directory();
    fs::copy(&file, copy.path().join("s.jsonl")).unwrap();
    let killed = Jsonl::open(copy.path()).unwrap();
    killed.post("s", &steer("i")).await.unwrap();
    let row = fs::read(copy.path().join("s.jsonl.mailbox")).unwrap();
    fs::write(file.with_file_name("s.jsonl.mailbox"), row).unwrap();
    let hinted = tokio::time::timeout(Duration::from_millis(200), mailbox.posted()).await;
    assert!(hinted.is_err(), "there is no hint");
    let other = Jsonl::open(file.parent().unwrap()).unwrap();
    assert_eq!(other.post("s", &steer("i")).await, Ok(None));
    tokio::time::timeout(Duration::from_secs(10), mailbox.posted()).await.unwrap();
    assert_eq!(unread(&*memory).await.unwrap(), ["i"]);
}

/// C275: a poster announces an input before writing it, so that it can be killed in between.
#[tokio::test]
async fn an_input_is_announced_before_it_is_written() {
    let (_directory, store, file) = store(&[&[remembered("one")]]).await;
    let hints = file.with_file_name(".posted");
    store.post("s", &steer("i")).await.unwrap();
    assert_eq!(fs::read_to_string(hints).unwrap(), "\"s\"\n\"s\"\n", "before and after");
}

/// C236: the clock of the store waits for a process that is posting.
#[tokio::test]
async fn the_clock_waits_for_a_process_that_is_posting() {
    let (_directory, store, file) = store(&[&[remembered("one")]]).await;
    let memory = store.open("s").await.unwrap();
    let mailbox = memory.mailbox().unwrap();
    let posting = fs::File::options().write(true).open(file.with_file_name(".lock")).unwrap();
    posting.lock().unwrap();
    let mut now = mailbox.now();
    let early = tokio::time::timeout(Duration::from_millis(200), &mut now).await;
    assert!(early.is_err(), "{early:?}");
    posting.unlock().unwrap();
    now.await.unwrap();
}
