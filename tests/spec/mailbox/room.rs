//! Inputs that wait for room in a queue.

use std::future::ready;

use crate::kit::*;

fn request(text: &str) -> InputEvent {
    InputEvent::UserRequest(text.into())
}

/// C531: an input waits in the mailbox while the queue of its session is full.
#[tokio::test(start_paused = true)]
async fn a_message_waits_for_room_in_the_queue() {
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    let gate = Gate::new();
    let model = ScriptedModel::new((0..34).map(|n| match n {
        0 => Script::text("Busy.").gate(&gate),
        n => Script::text(&format!("Reply {n}.")),
    }));
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    for n in 0..33 {
        handle.send(request(&format!("Request {n}."))).await.unwrap();
        if n == 0 {
            sleep(ms(100)).await; // it leaves the queue
        }
    }
    assert_eq!(handle.send(request("Too much.")).await, Err(InputError::Full(32)));
    let report = Schedule::once("s", "report", 1, request("Report."));
    store.put(&report).await.unwrap();
    assert_eq!(post_due_schedules(&store, None, |_, _| ready(())).await, Ok(1));
    sleep(ms(10_000)).await;
    assert_eq!(store.session("s").await.unwrap().unread, 1);
    gate.open();
    sleep(ms(10_000)).await;
    handle.wait_for_idle().await;
    let messages = replay_messages(&store.read("s", 0).await.unwrap());
    assert_eq!(messages.iter().filter(|message| message.text() == "Report.").count(), 1);
    assert_eq!(store.session("s").await.unwrap().unread, 0);
}
